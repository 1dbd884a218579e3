/* measure: statistics, closeness, sizes; and, on small models of the zoo, bench, verify and kernel bench from
 * end to end. (Slow: make test only.) */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "measure/measure.h"
#include "ops/ops.h"
#include "zoo/zoo.h"
#include "normal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static sparta_ctx *cx;
static sp_arena *arena;
static char folder[64];

static int setup(void **state)
{
    (void)state;
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    snprintf(folder, sizeof folder, "/tmp/sparta-measure-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    static char cache[96];
    snprintf(cache, sizeof cache, "%s/cache", folder);
    o.cache_dir = cache;
    cx = sparta_ctx_create(&o);
    arena = cx ? sp_arena_create(cx) : NULL;
    return arena ? 0 : 1;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    sp_arena_free(arena);
    size_t held = sp_ctx_memory(cx);
    sparta_ctx_free(cx);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || held;
}

/* ------------------------------------------------------------------ statistics */

static void quantiles(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3, 4, 10};
    assert_true(sp_quantile(x, 5, 0) == 1);
    assert_true(sp_quantile(x, 5, 0.5) == 3);
    assert_true(sp_quantile(x, 4, 0.5) == 2.5);
    assert_true(sp_quantile(x, 5, 1) == 10);
    assert_true(fabs(sp_quantile(x, 5, 0.9) - 7.6) < 1e-12);
    assert_true(sp_quantile(x, 1, 0.99) == 1);
    assert_true(sp_quantile(x, 0, 0.5) == 0);
}

static void interval_of_a_constant_ratio(void **state)
{
    (void)state;
    double a[40], b[40], lo, hi;
    for (int i = 0; i < 40; i++) {
        a[i] = 2;
        b[i] = 3;
    }
    assert_int_equal(sp_ratio_interval(cx, a, b, 40, 1, &lo, &hi), SPARTA_OK);
    assert_true(lo == 1.5 && hi == 1.5);
    assert_int_equal(sp_ratio_interval(cx, a, b, 1, 1, &lo, &hi), SPARTA_OK);
    assert_true(lo == 1.5 && hi == 1.5);
    assert_int_equal(sp_ratio_interval(cx, a, b, 0, 1, &lo, &hi), SPARTA_E_RANGE);
}

/* The interval holds the truth about 95 times of 100, and is repeatable. */
static void interval_covers(void **state)
{
    (void)state;
    sp_rng rng = sp_rng_seed(5);
    int held = 0;
    for (int trial = 0; trial < 200; trial++) {
        double a[60], b[60], lo, hi;
        for (int i = 0; i < 60; i++) {
            a[i] = 1 + 0.1 * normal(&rng);
            b[i] = 2 + 0.2 * normal(&rng);
        }
        assert_int_equal(sp_ratio_interval(cx, a, b, 60, (uint64_t)trial, &lo, &hi), SPARTA_OK);
        assert_true(lo <= hi && hi - lo < 0.5 && hi - lo > 0.01);
        held += lo <= 2 && 2 <= hi;
    }
    assert_in_range(held, 180, 200);
}

static void interval_memory_may_fail(void **state)
{
    (void)state;
    double a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, lo = -1, hi = -1;
    size_t before = sp_ctx_memory(cx);
    for (uint64_t n = 1; n <= 4; n++) {
        sp_ctx_fail_alloc(cx, n, false);
        assert_int_equal(sp_ratio_interval(cx, a, a, 8, 1, &lo, &hi), SPARTA_E_MEMORY);
        assert_true(lo == -1 && hi == -1);
    }
    sp_ctx_fail_alloc(cx, 0, false);
    assert_int_equal(sp_ctx_memory(cx), before);
}

/* ------------------------------------------------------------------ closeness */

static bool close4(float a0, float b0, double rtol, double atol, sp_closeness *out)
{
    float a[4] = {a0, 1, -10, 3}, b[4] = {b0, 1, -10, 3};
    int64_t dim[2] = {2, 2};
    sparta_tensor ta = sparta_tensor_view(SPARTA_F32, 2, dim, a),
                  tb = sparta_tensor_view(SPARTA_F32, 2, dim, b);
    return sp_close(&ta, &tb, &(sp_tolerance){rtol, atol}, 0, out);
}

static void closeness(void **state)
{
    (void)state;
    sp_closeness o;
    assert_true(close4(2, 2, 0, 0, &o));
    assert_true(o.max_abs == 0 && o.max_rel == 0 && fabs(o.cosine - 1) < 1e-12 && o.ok && o.largest == 10);
    /* relative to the largest value of all, which is 10 */
    assert_true(close4(2.0005f, 2, 1e-4, 0, &o));
    assert_false(close4(2.0015f, 2, 1e-4, 0, &o));
    assert_true(fabs(o.max_abs - 0.0015) < 1e-6 && fabs(o.max_rel - 0.00015) < 1e-7);
    assert_true(close4(2.0015f, 2, 0, 0.01, &o));
    assert_true(close4(NAN, NAN, 0, 0, &o));
    assert_true(close4(INFINITY, INFINITY, 0, 0, &o));
    assert_false(close4(INFINITY, -INFINITY, 1, 1, &o));
    assert_false(close4(NAN, 2, 1e9, 1e9, &o));
    assert_false(close4(2, NAN, 1e9, 1e9, &o));
    assert_true(isinf(o.max_abs));
    assert_false(close4(INFINITY, 2, 1e9, 1e9, &o));
}

/* What is forgiven besides rtol, where no tolerance is given. */
static void closeness_by_slack(void **state)
{
    (void)state;
    float x[2] = {1e-8f, 2e-8f}, y[2] = {1e-8f, 3e-8f};
    int32_t i[2] = {1, 2}, k[2] = {1, 3};
    const sp_tolerance by_default = {-1, -1}, none = {-1, 0};
    sp_closeness o;
    sparta_tensor a = sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){2}, x),
                  b = sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){2}, y),
                  c = sparta_tensor_view(SPARTA_I32, 1, (int64_t[]){2}, i),
                  d = sparta_tensor_view(SPARTA_I32, 1, (int64_t[]){2}, k);
    assert_false(sp_close(&a, &b, &by_default, 3e-14, &o));
    assert_true(sp_close(&a, &b, &by_default, 1e-6, &o));
    assert_false(sp_close(&a, &b, &none, 1e-6, &o));
    assert_false(sp_close(&c, &d, &by_default, 0, &o));
    assert_true(sp_close(&c, &d, &by_default, 1, &o));
    x[0] = y[0] = x[1] = 1e-40f; /* numbers with few digits: a thousand of their steps, not 7 */
    y[1] = 1e-40f + 1e-42f;
    assert_true(sp_close(&a, &b, &by_default, 0, &o));
    y[1] = 1e-40f + 2e-42f;
    assert_false(sp_close(&a, &b, &by_default, 0, &o));
}

/* The largest operand of what computes an output: through what only moves it, of inputs and constants too; masks do not count in a
 * Softmax. */
static void scales(void **state)
{
    (void)state;
    static const char text[] =
        "graph \"g\"\ninput x: f32[2]\nconst c: f32[2] = [-1000,2]\nconst m: f32[2] = [0,-1e9]\nconst s: "
        "i64[2] = [1,2]\n"
        "node h: ? = Mul(x, x) \"h\"\nnode a: ? = Add(h, c) \"a\"\nnode b: ? = Reshape(a, s) \"b\"\nnode d: "
        "? = Add(x, m) "
        "\"d\"\nnode e: ? = Softmax(d) \"e\"\noutput a\noutput b\noutput h\noutput x\noutput d\noutput e\n";
    static const double want[] = {1600, 1600, 40, 40, 1e9, 32};
    float x[2] = {-40, 5};
    sparta_named_tensor in = {"x", sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){2}, x)};
    sparta_tensor out[6];
    sp_graph *g = NULL;
    sp_scales s;
    assert_int_equal(sp_graph_parse(cx, text, NULL, NULL, &g), SPARTA_OK);
    assert_int_equal(sp_ops_infer(g), SPARTA_OK);
    assert_int_equal(sp_scales_create(cx, g, &in, 1, &s), SPARTA_OK);
    assert_int_equal(sp_ops_run(cx, g, &in, 1, out, sp_scales_watch, &s), SPARTA_OK);
    for (int i = 0; i < 6; i++) {
        assert_true(sp_scales_of(&s, g->output[i]) == want[i]);
        sp_free(cx, out[i].data);
    }
    sp_scales_free(&s);
    sp_graph_free(g);
}

static void closeness_of_other_shapes(void **state)
{
    (void)state;
    float x[6] = {0};
    int32_t n[6] = {0};
    const sp_tolerance any = {1, 1}, none = {0, 0};
    sp_closeness o;
    sparta_tensor a = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){2, 3}, x),
                  b = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){3, 2}, x);
    sparta_tensor c = sparta_tensor_view(SPARTA_I32, 2, (int64_t[]){2, 3}, n);
    assert_false(sp_close(&a, &b, &any, 0, &o));
    assert_false(sp_close(&a, &c, &any, 0, &o));
    assert_true(sp_close(&a, &a, &none, 0, &o));
    assert_true(o.cosine == 1); /* of zeros */
}

/* ------------------------------------------------------------------ files and sizes */

static const char *in_folder(const char *name)
{
    static char path[4][128];
    static int at;
    at = (at + 1) % 4;
    snprintf(path[at], sizeof path[at], "%s/%s", folder, name);
    return path[at];
}

static void put(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void kinds_of_files(void **state)
{
    (void)state;
    sparta_file_kind kind;
    const char *path = in_folder("f");
    static const struct {
        const char *bytes;
        size_t n;
        sparta_file_kind kind;
    } cases[] = {{"SPARTA\r\n....", 12, SPARTA_FILE_PACKAGE},
                 {"\x93NUMPY\1\0", 8, SPARTA_FILE_NPY},
                 {"PK\3\4....", 8, SPARTA_FILE_NPZ},
                 {"\x08\x0a", 2, SPARTA_FILE_ONNX},
                 {"SPART", 5, SPARTA_FILE_ONNX},
                 {"P", 1, SPARTA_FILE_ONNX}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        put(path, cases[i].bytes, cases[i].n);
        assert_int_equal(sparta_file_kind_of(cx, path, &kind), SPARTA_OK);
        assert_int_equal(kind, cases[i].kind);
    }
    put(path, "", 0);
    assert_int_equal(sparta_file_kind_of(cx, path, &kind), SPARTA_E_FORMAT);
    assert_int_equal(sparta_file_kind_of(cx, folder, &kind), SPARTA_E_IO);
    assert_int_equal(sparta_file_kind_of(cx, in_folder("missing"), &kind), SPARTA_E_IO);
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    assert_int_equal(sparta_file_kind_of(cx, in_folder("pipe"), &kind),
                     SPARTA_E_IO); /* and does not wait for a writer */
}

static sp_graph *small(const char *name, uint64_t seed, const char *prune)
{
    static const char *const dim[] = {"layers", "hidden", "heads", "ffn", "vocab", "positions"};
    static const int64_t value[] = {1, 32, 2, 64, 50, 24};
    sp_prune_spec spec;
    sp_zoo_request r = {.name = name, .seed = seed};
    sp_graph *g = NULL;
    if (!strcmp(name, "bert-mini")) r.dims = (sp_bindings){6, dim, value};
    if (prune) {
        assert_int_equal(sp_prune_parse(cx, prune, &spec), SPARTA_OK);
        r.prune = &spec;
    }
    assert_int_equal(sp_zoo_build(cx, &r, &g), SPARTA_OK);
    return g;
}

static void sizes_of_symbols(void **state)
{
    (void)state;
    sp_graph *g = small("bert-mini", 1, NULL);
    sp_bindings none = {0}, out;
    assert_int_equal(sp_ops_infer(g), SPARTA_OK);
    assert_int_equal(sp_sizes_fill(cx, arena, g, &none, &out), SPARTA_OK);
    assert_int_equal(out.n, 2);
    assert_string_equal(out.name[0], "batch");
    assert_string_equal(out.name[1], "sequence");
    assert_int_equal(out.value[0], 1);
    assert_int_equal(out.value[1], 24); /* 128, but the position table ends at 24 */
    const char *names[] = {"sequence", "batch"};
    int64_t values[] = {7, 3};
    sp_bindings given = {2, names, values};
    assert_int_equal(sp_sizes_fill(cx, arena, g, &given, &out), SPARTA_OK);
    assert_int_equal(out.value[0], 3);
    assert_int_equal(out.value[1], 7);
    values[0] = 25;
    assert_int_equal(sp_sizes_fill(cx, arena, g, &given, &out), SPARTA_E_USAGE);
    values[0] = -1;
    assert_int_equal(sp_sizes_fill(cx, arena, g, &given, &out), SPARTA_E_USAGE);
    values[0] = 0;
    assert_int_equal(sp_sizes_fill(cx, arena, g, &given, &out), SPARTA_OK);
    assert_int_equal(sp_sizes_some(cx, &out), SPARTA_E_USAGE); /* it runs, and there is nothing to measure */
    names[0] = "sequense";
    values[0] = 7;
    assert_int_equal(sp_sizes_fill(cx, arena, g, &given, &out), SPARTA_E_USAGE);
    assert_non_null(strstr(sparta_message(cx), "did you mean sequence"));
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ from end to end */

static const char *write_model(const char *name, const char *file, uint64_t seed, const char *prune)
{
    const char *path = in_folder(file);
    sp_graph *g = small(name, seed, prune);
    assert_int_equal(sp_onnx_write(cx, g, path), SPARTA_OK);
    sp_graph_free(g);
    return path;
}

static sp_compile_request quick(void)
{
    sp_compile_request r = {.options = SPARTA_OPTIONS(sparta_compile_options)};
    r.options.no_measure = 1;
    return r;
}

static sparta_status verify(const char *a, const char *b, sp_verify_result *out)
{
    sp_verify_request r = {.a = a, .against = b, .tolerance = {-1, -1}, .threads = 1, .compile = quick()};
    return sp_verify(cx, arena, &r, out);
}

static void verify_package_against_model(void **state)
{
    (void)state;
    char onnx[128], package[128];
    snprintf(onnx, sizeof onnx, "%s", write_model("bert-mini", "m.onnx", 1, "4x1:0.8"));
    snprintf(package, sizeof package, "%s", in_folder("m.sparta"));
    sparta_compile_options o = SPARTA_OPTIONS(sparta_compile_options);
    o.no_measure = 1;
    assert_int_equal(sparta_compile(cx, onnx, package, &o), SPARTA_OK);
    sp_verify_result r = {0};
    assert_int_equal(verify(package, onnx, &r), SPARTA_OK);
    assert_true(r.ok);
    assert_int_equal(r.n_outputs, 1);
    assert_string_equal(r.output[0].name, "last_hidden_state");
    assert_true(r.output[0].max_rel < 1e-4 && r.output[0].cosine > 0.9999);
    assert_null(r.first_difference);
    assert_int_equal(verify(package, package, &r), SPARTA_OK);
    assert_true(r.ok && r.output[0].max_abs == 0);
}

/* A batch of 67 images would take the references minutes: fewer items, two at least, and the sizes are said. */
static void verify_by_cost(void **state)
{
    (void)state;
    static const char text[] = "graph \"g\"\ninput x: f32[batch,8,8]\ninput w: f32[batch,8,8]\n"
                               "node y: ? = MatMul(x, w) \"y\"\noutput y\n"; /* 1024 an item */
    static const struct {
        double cost;
        const char *sizes;
    } cases[] = {{0, "batch=67"}, {10240, "batch=10"}, {10, "batch=2"}};
    const char *path = in_folder("cost.onnx");
    sp_graph *g = NULL;
    assert_int_equal(sp_graph_parse(cx, text, NULL, NULL, &g), SPARTA_OK);
    assert_int_equal(sp_ops_infer(g), SPARTA_OK);
    assert_int_equal(sp_onnx_write(cx, g, path), SPARTA_OK);
    sp_graph_free(g);
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_verify_request r = {
            .a = path, .against = path, .tolerance = {-1, -1}, .cost = cases[i].cost, .compile = quick()};
        sp_verify_result result = {0};
        assert_int_equal(sp_verify(cx, arena, &r, &result), SPARTA_OK);
        assert_string_equal(result.sizes[0], "batch=1");
        assert_string_equal(result.sizes[result.n_sizes - 1], cases[i].sizes);
    }
}

/* Another weight in the second layer: the first value that differs is what it computes, and nothing before
 * it. */
static void verify_finds_the_first_difference(void **state)
{
    (void)state;
    char first[128], second[128], package[128];
    snprintf(first, sizeof first, "%s", write_model("mlp", "a.onnx", 1, NULL));
    sp_graph *g = small("mlp", 1, NULL);
    const sp_value *w = sp_graph_find(g, "fc2.weight");
    ((float *)w->constant->data)[5] += 1;
    snprintf(second, sizeof second, "%s", in_folder("b.onnx"));
    assert_int_equal(sp_onnx_write(cx, g, second), SPARTA_OK);
    sp_graph_free(g);
    sp_verify_result r = {0};
    assert_int_equal(verify(second, first, &r), SPARTA_OK);
    assert_false(r.ok);
    assert_non_null(r.first_difference);
    assert_string_equal(r.first_difference, "/fc2/Gemm_output_0");
    assert_false(r.output[0].ok);
    /* The package keeps that value in panels, under another name; its node still tells. */
    snprintf(package, sizeof package, "%s", in_folder("b.sparta"));
    sparta_compile_options o = SPARTA_OPTIONS(sparta_compile_options);
    o.no_measure = 1;
    assert_int_equal(sparta_compile(cx, second, package, &o), SPARTA_OK);
    assert_int_equal(verify(package, first, &r), SPARTA_OK);
    assert_false(r.ok);
    assert_string_equal(r.first_difference, "/fc2/Relu_output_0");
}

static void verify_refuses_other_models(void **state)
{
    (void)state;
    char first[128], second[128];
    sp_verify_result r = {0};
    snprintf(first, sizeof first, "%s", write_model("mlp", "a.onnx", 1, NULL));
    snprintf(second, sizeof second, "%s", write_model("bert-mini", "b.onnx", 1, NULL));
    assert_int_equal(verify(first, second, &r), SPARTA_E_USAGE);
    assert_int_equal(verify(first, in_folder("missing.onnx"), &r), SPARTA_E_IO);
}

static void bench_two_subjects(void **state)
{
    (void)state;
    char onnx[128];
    snprintf(onnx, sizeof onnx, "%s", write_model("bert-mini", "m.onnx", 1, "4x1:0.8"));
    sp_bench_request r = {
        .subject = onnx, .threads = 1, .iterations = 7, .warmup = 1, .profile = true, .compile = quick()};
    sp_bench_result out;
    assert_int_equal(sp_bench(cx, arena, &r, &out), SPARTA_OK);
    assert_int_equal(out.subject.runs, 7);
    assert_int_equal(out.baseline.runs, 7);
    assert_true(out.subject.median > 0 && out.subject.best <= out.subject.median &&
                out.subject.median <= out.subject.p90);
    assert_true(out.ratio > 0 && out.ratio_lo <= out.ratio_hi);
    assert_true(out.n_layers > 0 && out.peak_gops > 0);
    assert_true(out.sparse_flop_share > 0 && out.sparse_flop_share <= 1);
    assert_int_equal(out.threads, 1);
    r.no_baseline = true;
    r.profile = false;
    assert_int_equal(sp_bench(cx, arena, &r, &out), SPARTA_OK);
    assert_int_equal(out.baseline.runs, 0);
    assert_int_equal(out.n_layers, 0);
    sparta_ctx_cancel(cx);
    assert_int_equal(sp_bench(cx, arena, &r, &out), SPARTA_E_CANCELLED);
}

static void kernel_by_itself(void **state)
{
    (void)state;
    static const struct {
        int64_t m, n, k;
        const char *pattern;
        double sparsity;
    } cases[] = {{1, 1, 1, "dense", 0},    {3, 7, 5, "1x1", 0.5},
                 {65, 33, 70, "4x1", 0.8}, {130, 64, 64, "2:4", 0},
                 {64, 16, 16, "4x1", 1},   {1, 900, 1800, "1x1", 0.2}, /* in more than one piece */
                 {16, 33, 70, "16x1", 0.5}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_kernel_request q = {.m = cases[i].m,
                               .n = cases[i].n,
                               .k = cases[i].k,
                               .pattern = cases[i].pattern,
                               .sparsity = cases[i].sparsity,
                               .threads = 2,
                               .seconds = 0.005,
                               .seed = 3};
        sp_kernel_result r;
        assert_int_equal(sp_kernel_bench(cx, &q, &r), SPARTA_OK);
        assert_true(r.best_us > 0 && r.median_us >= r.best_us && r.dense_best_us > 0);
        assert_true(r.nnz >= 0 && r.nnz <= q.n * q.k);
        assert_true(r.share_of_peak >= 0 && r.share_of_peak < 1.2);
        assert_int_equal(r.threads, 2);
        /* few tokens: what is read from memory is told, too */
        assert_int_equal(r.peak_gbytes_per_s > 0, q.m <= 16);
        assert_int_equal(r.share_of_bandwidth > 0, q.m <= 16 && r.stored_bytes > 0);
        if (q.m <= 16)
            assert_float_equal(r.gbytes_per_s, (double)r.stored_bytes / r.best_us * 1e-3,
                               1e-6 * r.gbytes_per_s);
    }
    sp_kernel_request q = {
        .m = 4, .n = 4, .k = 4, .pattern = "nonsense", .sparsity = 0.5, .threads = 1, .seconds = 0.005};
    sp_kernel_result r;
    assert_int_equal(sp_kernel_bench(cx, &q, &r), SPARTA_E_USAGE);
    q.pattern = "4x1";
    q.m = 0;
    assert_int_equal(sp_kernel_bench(cx, &q, &r), SPARTA_E_USAGE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(quantiles),
        TEST(interval_of_a_constant_ratio),
        TEST(interval_covers),
        TEST(interval_memory_may_fail),
        TEST(closeness),
        TEST(closeness_by_slack),
        TEST(scales),
        TEST(closeness_of_other_shapes),
        TEST(kinds_of_files),
        TEST(sizes_of_symbols),
        TEST(verify_package_against_model),
        TEST(verify_by_cost),
        TEST(verify_finds_the_first_difference),
        TEST(verify_refuses_other_models),
        TEST(bench_two_subjects),
        TEST(kernel_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
