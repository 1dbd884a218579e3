/* what if: a small model pruned in memory against itself dense; break-even on times that are made up; interruption, bad patterns,
 * memory that runs out. (Slow: make test only.) */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "implement/implement.h"
#include "measure/measure.h"
#include "ops/ops.h"
#include "tune/tune.h"
#include "zoo/zoo.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sparta_ctx *cx;
static sp_arena *arena;
static char folder[64], model[96];

static int enter_with(const char *cache, const char *compiler)
{
    static char path[96];
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    snprintf(folder, sizeof folder, "/tmp/sparta-whatif-XXXXXX");
    setenv("SPARTA_TRUST", "all", 1); /* whatever runs beside the tests */
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/%s", folder, cache);
    o.cache_dir = *cache ? path : "";
    o.compiler = compiler;
    cx = sparta_ctx_create(&o);
    arena = cx ? sp_arena_create(cx) : NULL;
    return arena ? 0 : 1;
}

static int enter(void **state)
{
    (void)state;
    return enter_with("cache", NULL);
}

/* Nothing is compiled, nothing is kept: fast. */
static int enter_bare(void **state)
{
    (void)state;
    return enter_with("", "");
}

static int leave(void **state)
{
    (void)state;
    char command[128];
    sp_arena_free(arena);
    const size_t held = sp_ctx_memory(cx);
    sparta_ctx_free(cx);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || held;
}

/* 96 - 64 - 40 - 10 by default. */
static void write_model(int64_t inputs, int64_t hidden)
{
    static const char *const name[] = {"inputs", "hidden1", "hidden2"};
    const int64_t value[] = {inputs, hidden, 40};
    sp_graph *g;
    sp_zoo_request r = {.name = "mlp", .seed = 3, .dims = {3, name, value}};
    assert_int_equal(sp_zoo_build(cx, &r, &g), SPARTA_OK);
    snprintf(model, sizeof model, "%s/m.onnx", folder);
    assert_int_equal(sp_onnx_write(cx, g, model), SPARTA_OK);
    sp_graph_free(g);
}

static sp_what_if_request ask(const char *const *pattern, int n)
{
    return (sp_what_if_request){.model = model,
                                .pattern = pattern,
                                .n_patterns = n,
                                .threads = 1,
                                .seconds = .01,
                                .no_break_even = true,
                                .compile = {.options = SPARTA_OPTIONS(sparta_compile_options)}};
}

static uint64_t file_digest(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint64_t d = 1469598103934665603u;
    assert_non_null(f);
    for (int c; (c = fgetc(f)) != EOF;) d = (d ^ (uint64_t)c) * 1099511628211u;
    fclose(f);
    return d;
}

static const sp_what_if_layer *layer_of(const sp_what_if_pattern *p, const char *name)
{
    for (int i = 0; i < p->n_layers; i++)
        if (strstr(p->layer[i].name, name)) return &p->layer[i];
    fail_msg("no layer %s", name);
    return NULL;
}

/* ------------------------------------------------------------------ patterns */

static void check_common(const sp_what_if_pattern *p)
{
    assert_true(isfinite(p->speedup) && p->speedup > 0);
    assert_true(p->ci95[0] <= p->ci95[1] && p->ci95[0] > 0);
    assert_true(fabs(p->speedup - p->dense_ms / p->median_ms) < 1e-9);
    assert_int_equal(p->n_weights, 3);
    assert_int_equal(p->n_layers, 3);
    assert_int_equal(p->n_break_even, 0);
    assert_true(p->bytes < p->dense_bytes);
    for (int i = 1; i < p->n_layers; i++)
        assert_true(p->layer[i - 1].dense_us - p->layer[i - 1].us >= p->layer[i].dense_us - p->layer[i].us);
}

static void patterns_are_compared(void **state)
{
    (void)state;
    static const char *const pattern[] = {"4x1:0.9", "32x32:0.9", "2:4", "1x1:0.9"};
    sp_what_if out;
    write_model(192, 128);
    const uint64_t before = file_digest(model);
    const sp_what_if_request r = ask(pattern, 4);
    assert_int_equal(sp_what_if_run(cx, arena, &r, &out), SPARTA_OK);
    assert_true(out.complete);
    assert_int_equal(out.n, 4);
    assert_int_equal(out.threads, 1);
    assert_int_equal(out.sizes.n, 1);
    for (int i = 0; i < 4; i++) check_common(&out.pattern[i]);
    const sp_what_if_pattern *strips = &out.pattern[0], *blocks = &out.pattern[1], *half = &out.pattern[2];
    assert_string_equal(strips->pattern, "4x1:0.9");
    assert_int_equal(strips->n_pruned, 3);
    assert_true(strips->sparsity >= .9 && strips->sparsity < .92);
    assert_true(fabs(layer_of(strips, "fc1")->density - .1) < .01);
    assert_true(fabs(half->sparsity - .5) < 1e-12);
    /* the finer the pattern, the more of the norm stays; 2:4 keeps half of the weights */
    assert_true(out.pattern[3].norm_kept > strips->norm_kept && strips->norm_kept > blocks->norm_kept);
    assert_true(half->norm_kept > out.pattern[3].norm_kept && half->norm_kept < 1 && blocks->norm_kept > 0);
    assert_true(file_digest(model) == before);
}

/* What a pattern does not fit is said: 10x40 has no block of 32x32 (skipped), and 10 rows are no multiple of 4 (padded). */
static void misfits_are_said(void **state)
{
    (void)state;
    static const char *const pattern[] = {"4x1:0.9", "32x32:0.5", "rows:0.5"};
    sp_what_if out;
    write_model(96, 64);
    const sp_what_if_request r = ask(pattern, 3);
    assert_int_equal(sp_what_if_run(cx, arena, &r, &out), SPARTA_OK);
    const sp_what_if_pattern *p = &out.pattern[0];
    assert_int_equal(p->n_remarks, 1);
    assert_string_equal(p->remark[0].weight, "fc3.weight");
    assert_false(p->remark[0].skipped);
    assert_int_equal(p->remark[0].n, 10);
    assert_int_equal(p->remark[0].k, 40);
    p = &out.pattern[1];
    assert_int_equal(p->n_pruned, 2);
    assert_int_equal(p->n_remarks, 2); /* 40x64 is padded */
    assert_true(p->remark[1].skipped && !p->remark[0].skipped);
    assert_non_null(strstr(layer_of(p, "fc3")->reason, "larger than the weight"));
    assert_true(layer_of(p, "fc3")->density == 1);
    assert_int_equal(out.pattern[2].n_remarks, 0);
    assert_int_equal(out.pattern[2].n_pruned, 3);
}

/* Nothing is left to prune: told, not measured. */
static void all_skipped(void **state)
{
    (void)state;
    static const char *const pattern[] = {"1024x1024:0.5", "1x1:0"};
    sp_what_if out;
    write_model(96, 64);
    const sp_what_if_request r = ask(pattern, 2);
    assert_int_equal(sp_what_if_run(cx, arena, &r, &out), SPARTA_OK);
    assert_int_equal(out.pattern[0].n_pruned, 0);
    assert_int_equal(out.pattern[0].n_remarks, 3);
    assert_true(isnan(out.pattern[0].speedup) && out.pattern[0].norm_kept == 1);
    /* a sparsity of 0 prunes nothing and keeps the whole norm */
    assert_true(out.pattern[1].norm_kept == 1 && out.pattern[1].sparsity == 0);
    assert_true(isfinite(out.pattern[1].speedup));
}

static void packages_too(void **state)
{
    (void)state;
    static const char *const pattern[] = {"4x1:0.8"};
    char package[96];
    sp_what_if out;
    write_model(96, 64);
    snprintf(package, sizeof package, "%s/m.sparta", folder);
    assert_int_equal(sparta_compile(cx, model, package, NULL), SPARTA_OK);
    sp_what_if_request r = ask(pattern, 1);
    r.model = package;
    assert_int_equal(sp_what_if_run(cx, arena, &r, &out), SPARTA_OK);
    assert_int_equal(out.pattern[0].n_pruned, 3);
    assert_true(out.pattern[0].sparsity >= .8);
}

/* A size that is given is compiled for: with one item the rows for few tokens take part, and win. */
static void given_sizes_are_compiled_for(void **state)
{
    (void)state;
    static const char *const pattern[] = {"1x1:0.8"}, *const batch[] = {"batch"};
    static const int64_t size[] = {1, 16, 17};
    char package[96];
    sp_what_if out;
    write_model(192, 128);
    snprintf(package, sizeof package, "%s/m.sparta", folder);
    assert_int_equal(sparta_compile(cx, model, package, NULL), SPARTA_OK);
    for (int i = 0; i < 4; i++) {
        sp_what_if_request r = ask(pattern, 1);
        r.compile.options.no_measure = 1;
        r.sizes = (sp_bindings){i < 3, batch, &size[i % 3]};
        for (int k = 0; k < 2; k++) {
            r.model = k ? package : model;
            assert_int_equal(sp_what_if_run(cx, arena, &r, &out), SPARTA_OK);
            assert_int_equal(out.sizes.value[0], i < 3 ? size[i] : 1);
            const sp_what_if_layer *l = layer_of(&out.pattern[0], "fc1");
            assert_int_equal(l->tokens, i < 2 ? size[i] : 128);
            if (i != 1) assert_int_equal(!strncmp(l->implement, "few_", 4), i == 0);
        }
    }
    sp_what_if_request r = ask(pattern, 1);
    r.sizes = (sp_bindings){1, (const char *const[]){"bach"}, size};
    assert_int_equal(sp_what_if_run(cx, arena, &r, &out), SPARTA_E_USAGE);
    assert_non_null(strstr(sparta_message(cx), "did you mean batch"));
}

/* ------------------------------------------------------------------ what goes wrong */

static void bad_patterns(void **state)
{
    (void)state;
    static const char *const bad[] = {"",      "4x1",     "4x1:2",   "4x1:nan",
                                      "bogus", "0x4:0.5", "2:4:0.5", "99999999x1:0.5",
                                      "5:4",   "4x1:-1",  "-4x1:1",  "4x1:0.9 "};
    sp_what_if out = {.n = 77};
    write_model(96, 64);
    for (size_t i = 0; i < SP_COUNT(bad); i++) {
        const sp_what_if_request r = ask(&bad[i], 1);
        assert_int_equal(sp_what_if_run(cx, arena, &r, &out), SPARTA_E_USAGE);
        assert_non_null(strstr(sparta_message(cx), "what-if"));
        assert_int_equal(out.n, 77);
    }
    static const char *const twice[] = {"2:4", "4x1:0.5", "2:4"};
    sp_what_if_request r = ask(twice, 3);
    assert_int_equal(sp_what_if_run(cx, arena, &r, &out), SPARTA_E_USAGE);
    assert_non_null(strstr(sparta_message(cx), "twice"));
    r.n_patterns = 0;
    assert_int_equal(sp_what_if_run(cx, arena, &r, &out), SPARTA_E_USAGE);
    r = ask(twice, 1);
    r.model = "/nowhere/at/all.onnx";
    assert_int_equal(sp_what_if_run(cx, arena, &r, &out), SPARTA_E_IO);
    assert_int_equal(out.n, 77);
}

/* A model whose products have no weights. */
static void nothing_to_prune(void **state)
{
    (void)state;
    static const char *const pattern[] = {"2:4"};
    static const char text[] = "graph \"g\"\ninput x: f32[4,4]\nnode y: ? = Relu(x) \"y\"\noutput y\n";
    sp_graph *g;
    sp_what_if out;
    assert_int_equal(sp_graph_parse(cx, text, NULL, NULL, &g), SPARTA_OK);
    assert_int_equal(sp_ops_infer(g), SPARTA_OK);
    snprintf(model, sizeof model, "%s/relu.onnx", folder);
    assert_int_equal(sp_onnx_write(cx, g, model), SPARTA_OK);
    sp_graph_free(g);
    const sp_what_if_request r = ask(pattern, 1);
    assert_int_equal(sp_what_if_run(cx, arena, &r, &out), SPARTA_E_USAGE);
    assert_non_null(strstr(sparta_message(cx), "nothing to prune"));
}

static void stop_at(void *pattern, int done, int all, const char *what)
{
    assert_in_range(done, 0, all);
    if (!strncmp(what, pattern, strlen(pattern))) sparta_ctx_cancel(cx);
}

static void interrupted_keeps_what_is_there(void **state)
{
    (void)state;
    static const char *const pattern[] = {"4x1:0.9", "2:4", "1x1:0.9"};
    static char stop[] = "2:4";
    sp_what_if out = {.n = 77};
    write_model(96, 64);
    sp_what_if_request r = ask(pattern, 3);
    r.compile.options.progress = stop_at;
    r.compile.options.progress_user = stop;
    assert_int_equal(sp_what_if_run(cx, arena, &r, &out), SPARTA_E_CANCELLED);
    assert_int_equal(out.n, 1);
    assert_false(out.complete);
    assert_string_equal(out.pattern[0].pattern, "4x1:0.9");
    assert_true(out.pattern[0].speedup > 0);
}

static void memory_may_fail(void **state)
{
    (void)state;
    static const char *const pattern[] = {"4x1:0.9"};
    write_model(12, 8);
    const size_t before = sp_ctx_memory(cx);
    sparta_status status = SPARTA_E_MEMORY;
    int failed = 0;
    for (uint64_t n = 1; status; n += 1 + n / 40) {
        sp_what_if out = {.n = 77};
        sp_arena *a = sp_arena_create(cx);
        sp_what_if_request r = ask(pattern, 1);
        r.seconds = 0;
        r.compile.options.no_measure = 1;
        assert_non_null(a);
        sp_ctx_fail_alloc(cx, n, false);
        status = sp_what_if_run(cx, a, &r, &out);
        sp_ctx_fail_alloc(cx, 0, false);
        if (status) assert_int_equal(status, SPARTA_E_MEMORY);
        if (status) assert_int_equal(out.n, 77);
        failed += status != SPARTA_OK;
        sp_arena_free(a);
        assert_int_equal(sp_ctx_memory(cx), before);
        assert_true(n < 1000000);
    }
    assert_true(failed > 50);
}

/* ------------------------------------------------------------------ break-even */

/* As if a sparse row took `slope` of what is left, and `base` besides, where dense takes 100. */
static void pretend(const char *db_path, const char *pattern, double base, double slope)
{
    sp_tune_db *db;
    uint64_t code;
    assert_int_equal(sp_tune_open(cx, db_path, &db), SPARTA_OK);
    assert_int_equal(sp_break_even_code(cx, &code), SPARTA_OK);
    for (int i = 2; i <= 98; i++) {
        char key[256];
        const char *library = sp_implement_onednn.version();
        sp_trial t = {.us = base + slope * (100 - i) / 100., .threads = 1};
        snprintf(key, sizeof key,
                 "break-even n=768 k=768 pattern=%s sparsity=%.6g tokens=128 target=%s library=%s cpu=%016lx "
                 "code=%016lx sparta=%s",
                 pattern, i / 100., sp_target_name(sp_target_best(SP_DEVICE_CPU)), library ? library : "none",
                 (unsigned long)sp_machine_digest(), (unsigned long)code, SPARTA_VERSION);
        snprintf(t.implement, sizeof t.implement, "quads");
        sp_tune_add(db, key, &t);
        t = (sp_trial){.us = 100, .threads = 1};
        snprintf(t.implement, sizeof t.implement, "dense4");
        sp_tune_add(db, key, &t);
    }
    sp_tune_close(db);
}

static sp_break_even found(const char *db, const char *pattern, int64_t n, int64_t k)
{
    sp_break_even e = {.n = n, .k = k};
    assert_int_equal(sp_break_even_find(cx, arena, db, pattern, NULL, &e), SPARTA_OK);
    assert_true(e.n == n && e.k == k);
    return e;
}

static void break_even_of_known_times(void **state)
{
    (void)state;
    char db[96];
    snprintf(db, sizeof db, "%s/b.db", folder);
    static const struct {
        const char *pattern;
        double base, slope, at;
    } made_up[] = {{"4x1", 0, 110, 1 - 100 / 110.},
                   {"2x1", 0, 150, 1. / 3},
                   {"1x1", 10, 150, .4},
                   {"16x1", 20, 800, .9},
                   {"8x1", 50, 60, 1 - 50 / 60.}};
    for (size_t i = 0; i < SP_COUNT(made_up); i++) {
        pretend(db, made_up[i].pattern, made_up[i].base, made_up[i].slope);
        const sp_break_even e = found(db, made_up[i].pattern, 768, 768);
        assert_true(fabs(e.sparsity - made_up[i].at) < .005);
        assert_string_equal(e.source, "database");
        assert_string_equal(e.implement, "quads");
        assert_string_equal(e.note, "");
    }
    pretend(db, "rows", 150, 10); /* never */
    sp_break_even e = found(db, "rows", 768, 768);
    assert_true(isnan(e.sparsity));
    assert_non_null(strstr(e.note, "dense is faster"));
    pretend(db, "cols", 0, 90); /* always */
    e = found(db, "cols", 768, 768);
    assert_true(e.sparsity == .02);
    assert_non_null(strstr(e.note, "faster"));
    e = found(db, "2:4", 768, 768);
    assert_true(isnan(e.sparsity) && *e.note);
}

/* Measured, then remembered, with the same answer. */
static void break_even_is_remembered(void **state)
{
    (void)state;
    const sp_break_even a = found(NULL, "4x1", 128, 64), b = found(NULL, "4x1", 128, 64);
    assert_string_equal(a.source, "measured");
    assert_string_equal(b.source, "database");
    assert_true(a.sparsity == b.sparsity || (isnan(a.sparsity) && isnan(b.sparsity)));
    assert_true(isnan(a.sparsity) ? *a.note : (a.sparsity >= .02 && a.sparsity <= .98));
    sp_break_even e = {.n = 64, .k = 64};
    assert_int_equal(sp_break_even_find(cx, arena, NULL, "4x1:0.9", NULL, &e), SPARTA_E_USAGE);
    assert_int_equal(sp_break_even_find(cx, arena, NULL, "", NULL, &e), SPARTA_E_USAGE);
}

/* That no sparse row takes a weight is an answer, not a failure that somebody finds later. */
static void break_even_of_no_row(void **state)
{
    (void)state;
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    o.cache_dir = o.compiler = "";
    o.strict = 1;
    sparta_ctx *strict = sparta_ctx_create(&o);
    sp_break_even e = {.n = 64, .k = 64};
    assert_int_equal(sp_break_even_find(strict, arena, ":memory:", "4x1", NULL, &e), SPARTA_OK);
    assert_non_null(strstr(e.note, "no sparse implement"));
    assert_true(isnan(e.sparsity));
    assert_string_equal(sparta_message(strict), "");
    sparta_ctx_free(strict);
}

/* With break-even: one entry a shape that was pruned. */
static void what_if_with_break_even(void **state)
{
    (void)state;
    static const char *const pattern[] = {"4x1:0.9", "2:4"};
    sp_what_if out;
    write_model(64, 64);
    sp_what_if_request r = ask(pattern, 2);
    r.no_break_even = false;
    assert_int_equal(sp_what_if_run(cx, arena, &r, &out), SPARTA_OK);
    assert_int_equal(out.pattern[0].n_break_even, 3);
    assert_int_equal(out.pattern[1].n_break_even, 0);
    assert_int_equal(out.pattern[0].break_even[0].n, 64); /* the most work first */
    assert_int_equal(out.pattern[0].break_even[2].n, 10);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter, leave)
#define BARE(f) cmocka_unit_test_setup_teardown(f, enter_bare, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(patterns_are_compared),
                                       TEST(misfits_are_said),
                                       BARE(all_skipped),
                                       BARE(packages_too),
                                       BARE(given_sizes_are_compiled_for),
                                       BARE(bad_patterns),
                                       BARE(nothing_to_prune),
                                       BARE(interrupted_keeps_what_is_there),
                                       BARE(memory_may_fail),
                                       TEST(break_even_of_known_times),
                                       TEST(break_even_is_remembered),
                                       BARE(break_even_of_no_row),
                                       TEST(what_if_with_break_even)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
