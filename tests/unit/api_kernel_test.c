/* Kernels of one's own: what they say of themselves is read, they run where they are asked for and right, and one that is wrong does not. The same of functions,
 * which packages cannot carry. */
#include "unit/api_bed.h"

#define HEAD "static void product(const struct sparta_product *p)\n{\n"
static const char rows[] = HEAD "    const int *pos = p->part[0].pos[1], *crd = p->part[0].crd[1];\n"
                                "    for (long i = 0; i < p->n; i++)\n"
                                "        for (long t = 0; t < p->tokens; t++) {\n"
                                "            float sum = 0;\n"
                                "            for (int at = pos[i]; at < pos[i + 1]; at++)\n"
                                "                sum += p->part[0].w[at] * p->x[64 * crd[at] + t];\n"
                                "            p->y[64 * i + t] = sum;\n"
                                "        }\n}\n",
                  ones[] = HEAD "    for (long i = 0; i < p->n; i++)\n"
                                "        for (long t = 0; t < p->tokens; t++) p->y[64 * i + t] = 1;\n}\n";

static sparta_kernel spec(const char *name, const char *text)
{
    sparta_kernel k = SPARTA_OPTIONS(sparta_kernel);
    k.name = name, k.text = text, k.format = "csr";
    return k;
}

/* A context of its own: kernels stay as long as it. */
static sparta_ctx *anew(void)
{
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    sparta_ctx_free(cx);
    o.cache_dir = in_root("cache");
    cx = sparta_ctx_create(&o);
    return cx;
}

/* The model with the first layer pinned; NULL: refused, as the context says. */
static sparta_package *pinned(const char *implement, int measure)
{
    sparta_compile_options o = SPARTA_OPTIONS(sparta_compile_options);
    sparta_schedule *s = NULL;
    sparta_schedule_rule *rule;
    sparta_package *p = NULL;
    ok(sparta_schedule_create(cx, NULL, &s));
    ok(sparta_schedule_tensor(s, "*", &rule));
    ok(sparta_schedule_set_implement(rule, implement));
    o.no_measure = !measure, o.rules = s, o.db = in_root("tune.db"), o.tokens = "128";
    if (sparta_compile_package(cx, MLP, &o, &p)) p = NULL;
    sparta_schedule_free(s);
    return p;
}

static void run(sparta_ctx *c, const sparta_package *p, float *out)
{
    float x[5 * 24];
    const int64_t dim[] = {5, 24};
    const sparta_named_tensor in = {sparta_package_input_name(p, 0),
                                    sparta_tensor_view(SPARTA_F32, 2, dim, x)};
    sparta_named_tensor y = {.name = sparta_package_output_name(p, 0)};
    sparta_session *s = NULL;
    for (int i = 0; i < 5 * 24; i++) x[i] = (float)(i % 13) / 8 - 0.7f;
    assert_int_equal(sparta_session_create(c, p, NULL, &s), SPARTA_OK);
    assert_int_equal(sparta_session_run(c, s, &in, 1, &y, 1), SPARTA_OK);
    memcpy(out, y.tensor.data, 5 * 7 * sizeof *out);
    sparta_session_free(s);
}

static void runs(void **state)
{
    (void)state;
    float want[35], got[35];
    anew();
    sparta_package *usual = mlp(), *own, *opened = NULL;
    run(cx, usual, want);
    sparta_kernel k = spec("mine", rows);
    k.when = "density<=1, n%1 == 0 , k > 1,tokens >= 0";
    ok(sparta_kernel_register(cx, &k));
    for (int measure = 0; measure < 2; measure++) {
        own = pinned("mine", measure);
        if (!own) fail_msg("%s", sparta_message(cx));
        run(cx, own, got);
        for (int i = 0; i < 35; i++) assert_float_equal(got[i], want[i], 1e-4);
        sparta_report *report;
        ok(sparta_package_report(cx, own, NULL, &report));
        assert_string_equal(sparta_report_layer(report, 0)->implement, "user");
        sparta_report_free(report);
        ok(sparta_package_save(cx, own, in_root("own.sparta")));
        sparta_package_close(own);
    }
    sparta_package_close(usual);
    anew(); /* which knows nothing of it: the package has the code */
    ok(sparta_package_open(cx, in_root("own.sparta"), &opened));
    run(cx, opened, got);
    for (int i = 0; i < 35; i++) assert_float_equal(got[i], want[i], 1e-4);
    assert_string_equal(sparta_notes(cx), "");
    sparta_package_close(opened);
}

/* It competes, and is found to be wrong; nobody asked for it, so the model is compiled without it. */
static void wrong(void **state)
{
    (void)state;
    float want[35], got[35];
    anew();
    sparta_package *usual = mlp(), *p = NULL;
    run(cx, usual, want);
    sparta_package_close(usual);
    const sparta_kernel k = spec("ones", ones);
    ok(sparta_kernel_register(cx, &k));
    sparta_compile_options o = SPARTA_OPTIONS(sparta_compile_options);
    o.db = in_root("wrong.db"), o.tokens = "128";
    ok(sparta_compile_package(cx, MLP, &o, &p));
    assert_non_null(strstr(sparta_notes(cx), "kernel ones disagrees with the reference"));
    run(cx, p, got);
    for (int i = 0; i < 35; i++) assert_float_equal(got[i], want[i], 1e-4);
    sparta_package_close(p);
    assert_null(pinned("ones", 1));
    assert_non_null(strstr(sparta_message(cx), "ones"));
    assert_null(pinned("ones", 0)); /* not timed: the package's own check finds it */
    assert_non_null(strstr(sparta_message(cx), "differs from the reference"));
}

/* Another text under the same name is another kernel: what is remembered of the one says nothing of the other. */
static void renewed(void **state)
{
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        anew();
        const sparta_kernel k = spec("mine", turn ? ones : rows);
        ok(sparta_kernel_register(cx, &k));
        sparta_package *p = pinned("mine", 1);
        assert_int_equal(p != NULL, !turn);
        sparta_package_close(p);
    }
}

static void unfit(const char *when)
{
    anew();
    sparta_kernel k = spec("mine", rows);
    k.when = when;
    ok(sparta_kernel_register(cx, &k));
    assert_null(pinned("mine", 0));
    assert_non_null(strstr(sparta_message(cx), "does not fit"));
}

static void refusals(void **state)
{
    (void)state;
    anew();
    sparta_kernel k = spec("mine", rows);
    k.name = "9lives";
    refused(sparta_kernel_register(cx, &k), SPARTA_E_USAGE, "9lives");
    k = spec("mine", NULL);
    refused(sparta_kernel_register(cx, &k), SPARTA_E_USAGE, "text");
    k = spec("mine", rows), k.op = "Conv";
    refused(sparta_kernel_register(cx, &k), SPARTA_E_UNSUPPORTED, "Conv");
    k = spec("mine", rows), k.format = "quads(128)";
    refused(sparta_kernel_register(cx, &k), SPARTA_E_UNSUPPORTED, "levels");
    k = spec("mine", rows), k.format = "csx";
    refused(sparta_kernel_register(cx, &k), SPARTA_E_USAGE, "csx");
    static const char *const conditions[] = {
        "m < 4", "n <", "n % 0 == 0", "density % 2 == 0", "n < 4 5", "n = 4", "n < inf", ",", "n%"};
    for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++) {
        k = spec("mine", rows), k.when = conditions[i];
        refused(sparta_kernel_register(cx, &k), SPARTA_E_USAGE, "when");
    }
    k = spec("mine", "static void product(const struct sparta_product *p) { p->nothing = 1; }\n");
    refused(sparta_kernel_register(cx, &k), SPARTA_E_COMPILER, "mine:1");
    k = spec("mine", "static int something;\n");
    refused(sparta_kernel_register(cx, &k), SPARTA_E_COMPILER, "product");
    k = spec("mine", rows);
    ok(sparta_kernel_register(cx, &k));
    refused(sparta_kernel_register(cx, &k), SPARTA_E_USAGE, "of that name");
    unfit("n > 1000000"), unfit("density < 0"), unfit("k % 2 == 3"), unfit("tokens == 12345");
}

static void files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {{"int x;\n", "begins with no comment"},
               {"/* sparta kernel\n * name: a\n * size: 4\n */\n", "size: 4"},
               {"/* sparta kernel\n * name: a\n * name: b\n */\n", "name: b"},
               {"/* sparta kernel\n * name: a\n", "begins with no comment"},
               {"/* sparta kernel */\n", "name"}};
    anew();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FILE *f = fopen(in_root("bad.c"), "w");
        fputs(bad[i].text, f);
        fclose(f);
        assert_int_not_equal(sparta_kernel_open(cx, in_root("bad.c")), SPARTA_OK);
        if (!strstr(sparta_message(cx), bad[i].says)) fail_msg("%s", sparta_message(cx));
    }
    refused(sparta_kernel_open(cx, in_root("nowhere.c")), SPARTA_E_IO, "nowhere.c");
    ok(sparta_kernel_open(cx, "examples/kernel.c"));
    sparta_package *p = pinned("rows_of_csr", 0);
    assert_null(p); /* its layers are fuller than it wants */
    assert_non_null(strstr(sparta_message(cx), "rows_of_csr"));
}

/* ------------------------------------------------------------------ functions */
static void product(void *user, const sparta_product *p)
{
    const int *pos = p->part[0].pos[1], *crd = p->part[0].crd[1];
    __atomic_fetch_add((int *)user, 1, __ATOMIC_RELAXED);
    for (long i = 0; i < p->n; i++)
        for (long t = 0; t < p->tokens; t++) {
            float sum = 0;
            for (int at = pos[i]; at < pos[i + 1]; at++) sum += p->part[0].w[at] * p->x[64 * crd[at] + t];
            p->y[64 * i + t] = sum;
        }
}

static void twice(void *user, const sparta_product *p)
{
    product(user, p);
    for (long i = 0; i < p->n; i++)
        for (long t = 0; t < p->tokens; t++) p->y[64 * i + t] *= 2;
}

static int never(void *user, int64_t n, int64_t k, int64_t tokens, double density)
{
    (void)user, (void)tokens;
    assert_true(n > 0 && k > 0 && density > 0 && density <= 1);
    return 0;
}

static int calls;
static sparta_kernel_function function(const char *name, void (*f)(void *user, const sparta_product *p))
{
    sparta_kernel_function k = SPARTA_OPTIONS(sparta_kernel_function);
    k.name = name, k.format = "csr", k.product = f, k.user = &calls;
    return k;
}

static void same(const float *got, const float *want)
{
    for (int i = 0; i < 35; i++) assert_float_equal(got[i], want[i], 1e-4);
}

static void function_runs(void **state)
{
    (void)state;
    float want[35], got[35];
    anew();
    sparta_package *usual = mlp(), *own, *opened = NULL;
    run(cx, usual, want);
    const sparta_kernel_function f = function("called_so", product);
    ok(sparta_kernel_function_register(cx, &f));
    for (int measure = 0; measure < 2; measure++) {
        own = pinned("called_so", measure);
        if (!own) fail_msg("%s", sparta_message(cx));
        calls = 0;
        run(cx, own, got);
        assert_true(calls > 0);
        same(got, want);
        sparta_report *report;
        ok(sparta_package_report(cx, own, NULL, &report));
        assert_string_equal(sparta_report_layer(report, 0)->implement, "user_function");
        sparta_report_free(report);
        ok(sparta_package_save(cx, own, in_root("called.sparta")));
        sparta_package_close(own);
    }
    sparta_package_close(usual);
    /* A context that has no such function, one whose function takes another format, and one that has it. */
    for (int turn = 0; turn < 3; turn++) {
        sparta_kernel_function again = function("called_so", product);
        anew();
        if (turn == 1) again.format = "csc";
        if (turn) ok(sparta_kernel_function_register(cx, &again));
        ok(sparta_package_open(cx, in_root("called.sparta"), &opened));
        calls = 0;
        run(cx, opened, got);
        same(got, want);
        assert_int_equal(calls > 0, turn == 2);
        assert_int_equal(strstr(sparta_notes(cx), "function 'called_so'") != NULL, turn < 2);
        sparta_package_close(opened);
    }
}

/* It competes, is found to be wrong, and is not used; asked for by its name it is refused. What another did under that name is forgotten. */
static void function_wrong(void **state)
{
    (void)state;
    float want[35], got[35];
    anew();
    sparta_package *p = mlp();
    run(cx, p, want);
    sparta_package_close(p);
    for (int turn = 0; turn < 2; turn++) {
        anew();
        const sparta_kernel_function f = function("renewed", turn ? twice : product);
        ok(sparta_kernel_function_register(cx, &f));
        sparta_compile_options o = SPARTA_OPTIONS(sparta_compile_options);
        o.db = in_root("functions.db"), o.tokens = "128";
        ok(sparta_compile_package(cx, MLP, &o, &p));
        assert_int_equal(strstr(sparta_notes(cx), "kernel renewed disagrees with the reference") != NULL,
                         turn);
        run(cx, p, got);
        same(got, want);
        sparta_package_close(p);
        p = pinned("renewed", 1);
        assert_int_equal(p != NULL, !turn);
        sparta_package_close(p);
    }
    assert_null(pinned("renewed", 0)); /* not timed: the package's own check finds it */
    assert_non_null(strstr(sparta_message(cx), "differs from the reference"));
}

static void function_refusals(void **state)
{
    (void)state;
    anew();
    sparta_kernel_function f = function("9lives", product);
    refused(sparta_kernel_function_register(cx, &f), SPARTA_E_USAGE, "9lives");
    f = function("mine", NULL);
    refused(sparta_kernel_function_register(cx, &f), SPARTA_E_USAGE, "function");
    f = function("mine", product), f.format = NULL;
    refused(sparta_kernel_function_register(cx, &f), SPARTA_E_USAGE, "format");
    f = function("mine", product), f.format = "csx";
    refused(sparta_kernel_function_register(cx, &f), SPARTA_E_USAGE, "csx");
    f = function("mine", product), f.format = "quads(128)";
    refused(sparta_kernel_function_register(cx, &f), SPARTA_E_UNSUPPORTED, "levels");
    f = function("mine", product), f.size = 0;
    refused(sparta_kernel_function_register(cx, &f), SPARTA_E_USAGE, "kernel function");
    f = function("mine", product), f.when = never;
    ok(sparta_kernel_function_register(cx, &f));
    refused(sparta_kernel_function_register(cx, &f), SPARTA_E_USAGE, "of that name");
    sparta_kernel text = spec("mine", rows);
    refused(sparta_kernel_register(cx, &text), SPARTA_E_USAGE, "of that name");
    assert_null(pinned("mine", 0));
    assert_non_null(strstr(sparta_message(cx), "does not fit"));
    anew();
    f = function("strip4", product);
    ok(sparta_kernel_function_register(cx, &f));
    assert_null(pinned("strip4", 0));
    assert_non_null(strstr(sparta_message(cx), "a kernel of ours has that name"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs),           cmocka_unit_test(wrong),
                                       cmocka_unit_test(renewed),        cmocka_unit_test(refusals),
                                       cmocka_unit_test(files),          cmocka_unit_test(function_runs),
                                       cmocka_unit_test(function_wrong), cmocka_unit_test(function_refusals)};
    return cmocka_run_group_tests(tests, enter, leave);
}
