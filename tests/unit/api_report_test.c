/* Reports, progress and profiles, as a program sees them. */
#include "unit/api_bed.h"
#include <math.h>

static const sparta_layer *layer_named(const sparta_report *r, const char *part)
{
    const sparta_layer *l;
    for (int i = 0; (l = sparta_report_layer(r, i)); i++)
        if (strstr(l->name, part)) return l;
    fail_msg("no layer '%s'", part);
    return NULL;
}

static void check_layers(const sparta_report *r)
{
    const sparta_layer *sparse = layer_named(r, "layers.6"), *dense = layer_named(r, "layers.8");
    assert_string_equal(sparse->op, "Linear");
    assert_string_equal(sparse->pattern, "4x1");
    assert_string_equal(sparse->block, "4x1");
    assert_true(sparse->density > .2 && sparse->density < .5 && sparse->n == 16);
    assert_int_equal(sparse->dtype, SPARTA_F32);
    assert_true(sparse->sparse && !*sparse->reason && sparse->us > 0);
    assert_non_null(sparse->format);
    assert_false(dense->sparse);
    assert_non_null(strstr(dense->reason, "no zeros to skip"));
    assert_null(sparta_report_layer(r, -1));
    assert_null(sparta_report_layer(r, 100));
}

static void of_package(void **state)
{
    (void)state;
    sparta_package *p = mlp();
    sparta_report *r = NULL;
    ok(sparta_package_report(cx, p, NULL, &r));
    const sparta_facts *f = sparta_report_facts(r);
    check_layers(r);
    assert_true(f->bytes > 0 && f->kernels > 0 && f->sparse_layers >= 1 && f->nodes > 0 && !f->opset);
    assert_true(f->parameters > 0 && f->unaccelerated >= 0 && f->unaccelerated <= 1);
    assert_string_equal(sparta_report_symbol(r, 0)->name, "batch");
    assert_true(sparta_report_symbol(r, 0)->most == INT64_MAX);
    assert_null(sparta_report_symbol(r, 1));
    assert_non_null(sparta_report_operator(r, 0));
    assert_null(sparta_report_effect(r, 0));
    if (sparta_report_target(r, 0)) assert_true(sparta_report_target(r, 0)->checked);
    sparta_package_close(p);
    check_layers(r); /* the report is its own */
    sparta_report_free(r);
    sparta_report_free(NULL);
}

static void of_model(void **state)
{
    (void)state;
    sparta_report *r = NULL;
    sparta_schedule *rules = NULL;
    sparta_schedule_rule *rule;
    sparta_compile_options o = quick();
    const char *const dims[] = {"batch=4", NULL}, *const none[] = {"nobody=4", NULL};
    ok(sparta_model_report(cx, MLP, NULL, &r));
    check_layers(r);
    assert_int_equal(sparta_report_facts(r)->opset, 14);
    assert_true(sparta_report_facts(r)->parameters_left < sparta_report_facts(r)->parameters_given);
    sparta_report_free(r);
    o.dims = dims;
    ok(sparta_model_report(cx, MLP, &o, &r));
    assert_null(sparta_report_symbol(r, 0));
    assert_int_equal(sparta_report_layer(r, 0)->tokens, 4);
    sparta_report_free(r);
    ok(sparta_schedule_create(cx, NULL, &rules));
    ok(sparta_schedule_tensor(rules, "layers.6.weight", &rule));
    ok(sparta_schedule_sparsify(rule, "magnitude(pattern=1x1, sparsity=0.9)"));
    o.rules = rules;
    ok(sparta_model_report(cx, MLP, &o, &r));
    const sparta_effect *e = sparta_report_effect(r, 0);
    assert_non_null(e);
    assert_string_equal(e->clause, "sparsify");
    assert_string_equal(e->tensor, "layers.6.weight");
    assert_non_null(strstr(e->layer, "layers.6"));
    assert_true(e->density < e->density_before && e->n == 16 && !e->implement);
    assert_null(sparta_report_effect(r, 1));
    sparta_report_free(r);
    sparta_schedule_free(rules);
    o.rules = NULL;
    o.dims = none;
    refused(sparta_model_report(cx, MLP, &o, &r), SPARTA_E_USAGE, "nobody");
    refused(sparta_model_report(cx, in_root("absent.onnx"), NULL, &r), SPARTA_E_IO, "absent.onnx");
}

/* ------------------------------------------------------------------ compile in memory, with progress */

typedef struct watch {
    int calls, done, all, cancel_at;
    int back; /* it was told of fewer steps than before */
} watch;

static void watching(void *user, int done, int all, const char *what)
{
    watch *w = user;
    assert_true(done <= all && what);
    w->back |= done < w->done;
    w->done = done, w->all = all;
    if (++w->calls == w->cancel_at) sparta_ctx_cancel(cx);
}

static void progress(void **state)
{
    (void)state;
    watch w = {0};
    sparta_package *p = NULL, *q = NULL;
    sparta_report *r = NULL;
    sparta_file_kind kind;
    sparta_compile_options o = quick();
    o.progress = watching;
    o.progress_user = &w;
    o.db = in_root("own.db");
    ok(sparta_compile_package(cx, MLP, &o, &p));
    assert_true(w.calls > 1 && w.all >= w.calls / 2 && w.done == w.all &&
                !w.back); /* several graphs, each step once */
    ok(sparta_package_report(cx, p, &o, &r));
    assert_true(sparta_report_facts(r)->parameters_left < sparta_report_facts(r)->parameters_given);
    assert_int_equal(sparta_report_facts(r)->bytes, 0);
    sparta_report_free(r);
    ok(sparta_package_save(cx, p, in_root("saved.sparta")));
    sparta_package_close(p);
    ok(sparta_file_kind_of(cx, in_root("saved.sparta"), &kind));
    assert_int_equal(kind, SPARTA_FILE_PACKAGE);
    ok(sparta_package_open(cx, in_root("saved.sparta"), &q));
    ok(sparta_package_check(cx, q));
    sparta_package_close(q);
    w = (watch){.cancel_at = 2};
    refused(sparta_compile_package(cx, MLP, &o, &p), SPARTA_E_CANCELLED, "cancelled");
    sparta_ctx_reset(cx);
    refused(sparta_package_open(cx, MLP, &q), SPARTA_E_FORMAT, "mlp-script");
}

/* A check that nothing passes, and none. */
static void unverified(void **state)
{
    (void)state;
    sparta_package *p = NULL;
    sparta_compile_options o = quick();
    o.rtol = o.atol = 1e-30;
    refused(sparta_compile_package(cx, MLP, &o, &p), SPARTA_E_DIFFER, "differs from the reference");
    o.no_verify = 1;
    ok(sparta_compile_package(cx, MLP, &o, &p));
    sparta_package_close(p);
}

/* ------------------------------------------------------------------ prune and verify, from file to file */

static void pruned_and_verified(void **state)
{
    (void)state;
    const char *small = in_root("small.onnx");
    sparta_prune_options prune = SPARTA_OPTIONS(sparta_prune_options);
    sparta_verify_options verify = SPARTA_OPTIONS(sparta_verify_options);
    sparta_pruned *what = NULL;
    sparta_verified *same = NULL, *other = NULL;
    prune.pattern = "4x1:0.5";
    ok(sparta_prune_file(cx, MLP, small, &prune, NULL, &what));
    double least = 1;
    const sparta_pruned_weight *w;
    for (int i = 0; (w = sparta_pruned_weight_at(what, i)); i++) least = fmin(least, w->density);
    assert_true(least < .6);
    sparta_pruned_free(what);
    ok(sparta_verify(cx, small, small, &verify, NULL, &same));
    assert_true(sparta_verified_facts_of(same)->same && sparta_verified_output_at(same, 0)->same);
    ok(sparta_verify(cx, small, MLP, &verify, NULL, &other)); /* no failure: it is the answer */
    assert_false(sparta_verified_facts_of(other)->same);
    sparta_verified_free(same), sparta_verified_free(other);
    verify.n_inputs = 1;
    refused(sparta_verify(cx, small, MLP, &verify, NULL, &other), SPARTA_E_USAGE, "both or neither");
    prune.pattern = "4x";
    refused(sparta_prune_file(cx, MLP, small, &prune, NULL, NULL), SPARTA_E_USAGE, "4x");
}

/* ------------------------------------------------------------------ where the time goes */

static void profile(void **state)
{
    (void)state;
    sparta_package *p = mlp();
    sparta_session *s = NULL;
    sparta_session_options o = SPARTA_OPTIONS(sparta_session_options);
    const sparta_step *step;
    o.profile = o.threads = 1;
    ok(sparta_session_create(cx, p, &o, &s));
    const sparta_named_tensor in = mlp_input(p, 32);
    sparta_named_tensor out = {.name = sparta_package_output_name(p, 0)};
    for (int i = 0; i < 3; i++) ok(sparta_session_run(cx, s, &in, 1, &out, 1));
    double sum = 0, ops = 0, dense_ops = 0;
    for (int i = 0; (step = sparta_session_step(s, i)); i++) {
        assert_true(step->name && step->op && step->implement);
        sum += step->seconds;
        ops += step->ops;
        dense_ops += step->dense_ops;
    }
    assert_true(sum > 0 && sum < 10 && ops > 0 && ops < dense_ops);
    sparta_session_forget_times(s);
    for (int i = 0; (step = sparta_session_step(s, i)); i++) assert_true(step->seconds == 0);
    sparta_session_free(s);
    sparta_package_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_package),
        cmocka_unit_test(of_model),
        cmocka_unit_test(progress),
        cmocka_unit_test(unverified),
        cmocka_unit_test(pruned_and_verified),
        cmocka_unit_test(profile),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
