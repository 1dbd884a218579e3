/* measure: comparisons that say how sure they are, and kernel bench of a given weight in a given format. */
#include "bed.h"
#include "arrays/arrays.h"
#include "measure/measure.h"
#include <math.h>

enum { PAIRS = 200, N = 40, K = 300 };

static float w[N * K];

/* ------------------------------------------------------------------ comparisons */

/* b is three times a; one pair in `each` is hit by something that lasts `hit`, in a and in b alike. */
static sp_comparison compare(int each, double hit, double jitter)
{
    double a[PAIRS], b[PAIRS];
    sp_rng r = sp_rng_seed(7);
    sp_comparison c = {.ratio = -1};
    for (int i = 0; i < PAIRS; i++) {
        const double more = each && i % each == 0 ? hit : 0;
        a[i] = 1 + more + jitter * sp_rng_uniform(&r);
        b[i] = 3 + more + jitter * sp_rng_uniform(&r);
    }
    assert_int_equal(sp_compare(cx, a, b, PAIRS, 1, &c), SPARTA_OK);
    assert_true(c.lo <= c.ratio && c.ratio <= c.hi);
    return c;
}

static void a_quiet_machine(void **state)
{
    (void)state;
    sp_comparison c = compare(0, 0, 0.01);
    assert_false(c.noisy);
    assert_true(fabs(c.ratio - 3) < 0.05);
    c = compare(20, 50, 0.01); /* a few interruptions do not move medians */
    assert_false(c.noisy);
    assert_true(fabs(c.ratio - 3) < 0.05);
    assert_true(c.a.p99 > 50 && c.a.p90 < 2 && c.a.best >= 1);
}

static void a_noisy_machine(void **state)
{
    (void)state;
    assert_true(compare(3, 5, 0.01).noisy);
    assert_true(compare(0, 0, 2).noisy);
    sp_comparison c;
    const double one = 1;
    assert_int_equal(sp_compare(cx, &one, &one, 0, 1, &c), SPARTA_E_RANGE);
    assert_int_equal(sp_compare(cx, &one, &one, 1, 1, &c), SPARTA_OK);
    assert_true(c.ratio == 1 && !c.noisy);
}

static void comparing_without_memory(void **state)
{
    (void)state;
    const double x[4] = {1, 2, 3, 4};
    sp_comparison c;
    sparta_status s = SPARTA_E_MEMORY;
    for (uint64_t n = 1; s && n < 100; n++) {
        sp_ctx_fail_alloc(cx, n, true);
        s = sp_compare(cx, x, x, 4, 1, &c);
        assert_true(s == SPARTA_OK || s == SPARTA_E_MEMORY);
    }
    sp_ctx_fail_alloc(cx, 0, false);
    assert_int_equal(s, SPARTA_OK);
}

/* ------------------------------------------------------------------ one weight, one format */

static int64_t scatter(double density)
{
    sp_rng r = sp_rng_seed(3);
    int64_t there = 0;
    for (int i = 0; i < N * K; i++) {
        w[i] = sp_rng_uniform(&r) < density ? (float)(1 + sp_rng_uniform(&r)) : 0;
        there += w[i] != 0;
    }
    return there;
}

static sparta_status time_it(const sparta_tensor *t, const char *format, sp_kernel_result *out)
{
    const sp_kernel_request q = {.m = 20,
                                 .weight = t,
                                 .format = format,
                                 .threads = 1,
                                 .seconds = 1e-4,
                                 .quick = true,
                                 .target = "portable"};
    return sp_kernel_bench(cx, &q, out);
}

static void chosen_formats(void **state)
{
    (void)state;
    static const struct {
        const char *format, *implement;
    } cases[] = {{"strip(4)", "strip4"},  {"quads(128)", "quads"}, {"quads(256)", "quads"},
                 {"pairs(256)", "pairs"}, {"rows(4)", "dense4"},   {"csr", "walk"},
                 {"quads(300)", "walk"},  {"hyb(1,2)", "walk"},    {"dense", "walk"},
                 {"csr, crd=u16", "walk"}};
    const int64_t there = scatter(0.5);
    const sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){N, K}, w);
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_kernel_result r;
        assert_int_equal(time_it(&t, cases[i].format, &r), SPARTA_OK);
        assert_string_equal(r.implement, cases[i].implement);
        assert_string_equal(r.dense_name, "dense4");
        assert_string_equal(r.pattern, "1x1");
        assert_int_equal(r.nnz, there);
        assert_true(r.best_us > 0 && r.dense_median_us >= r.dense_best_us && r.stored_bytes >= there * 4);
        assert_true(r.ratio_lo <= r.ratio_to_dense && r.ratio_to_dense <= r.ratio_hi);
        if (!strncmp(cases[i].format, "quads", 5) || !strncmp(cases[i].format, "pairs", 5))
            assert_string_equal(r.format, cases[i].format);
    }
}

/* Kernels multiply f32; the matrix may be of any type and layout. */
static void other_weights(void **state)
{
    (void)state;
    static double wide[K * N];
    const int64_t there = scatter(0.1);
    for (int n = 0; n < N; n++)
        for (int k = 0; k < K; k++) wide[k * N + n] = (double)w[n * K + k];
    sparta_tensor t = sparta_tensor_view(SPARTA_F64, 2, (int64_t[]){N, K}, wide);
    t.stride[0] = 1, t.stride[1] = N;
    sp_kernel_result r;
    assert_int_equal(time_it(&t, NULL, &r), SPARTA_OK);
    assert_int_equal(r.nnz, there);
    assert_true(!strcmp(r.implement, "pairs") || !strcmp(r.implement, "quads"));
    assert_int_equal(time_it(&t, "bsr(32,32)", &r), SPARTA_E_LIMIT);
    assert_int_equal(time_it(&t, "csrr", &r), SPARTA_E_USAGE);
    assert_int_equal(time_it(&t, "csf", &r), SPARTA_E_USAGE); /* of three dimensions */
    t = sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){N * K}, w);
    assert_int_equal(time_it(&t, NULL, &r), SPARTA_E_SHAPE);
    t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){0, K}, w);
    assert_int_equal(time_it(&t, NULL, &r), SPARTA_E_USAGE);
}

/* A mask as NumPy saves it, of a given weight and of a random one. */
static void masks(void **state)
{
    (void)state;
    char path[] = "/tmp/sparta_kernel_XXXXXX", npy[64];
    static uint8_t keep[N * K];
    assert_non_null(mkdtemp(path));
    snprintf(npy, sizeof npy, "%s/mask.npy", path);
    scatter(1);
    for (int i = 0; i < N * K; i++) keep[i] = i % 3 == 0;
    const sparta_tensor mask = sparta_tensor_view(SPARTA_BOOL, 2, (int64_t[]){N, K}, keep),
                        t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){N, K}, w);
    assert_int_equal(sp_npy_write(cx, npy, &mask), SPARTA_OK);
    sp_kernel_request q = {.m = 20,
                           .n = N,
                           .k = K,
                           .pattern = npy,
                           .threads = 1,
                           .seconds = 1e-4,
                           .quick = true,
                           .target = "portable"};
    sp_kernel_result r;
    assert_int_equal(sp_kernel_bench(cx, &q, &r), SPARTA_OK);
    assert_int_equal(r.nnz, N * K / 3);
    q.weight = &t;
    assert_int_equal(sp_kernel_bench(cx, &q, &r), SPARTA_OK);
    assert_int_equal(r.nnz, N * K / 3);
    q.weight = NULL, q.n = N + 1;
    assert_int_equal(sp_kernel_bench(cx, &q, &r), SPARTA_E_SHAPE);
    unlink(npy);
    rmdir(path);
}

static void timing_without_memory(void **state)
{
    (void)state;
    scatter(0.3);
    const sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){N, K}, w);
    sp_kernel_result r;
    sparta_status s = SPARTA_E_MEMORY;
    for (uint64_t n = 1; s && n < 5000; n++) {
        sp_ctx_fail_alloc(cx, n, true);
        s = time_it(&t, "csr", &r);
        assert_true(s == SPARTA_OK || s == SPARTA_E_MEMORY);
    }
    sp_ctx_fail_alloc(cx, 0, false);
    assert_int_equal(s, SPARTA_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_quiet_machine), TEST(a_noisy_machine), TEST(comparing_without_memory), TEST(chosen_formats),
        TEST(other_weights),   TEST(masks),           TEST(timing_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
