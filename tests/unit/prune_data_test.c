/* Pruning by what layers meet: the factor of the inverse, Wanda and SparseGPT against what they promise, and memory that fails. The whole way, against
 * torch, is in tests/torch/test_one_shot.py. */
#include "bed.h"
#include <math.h>
#include "prune/prune.h"

static sp_prune_spec parse(const char *text)
{
    sp_prune_spec s;
    ok(sp_prune_parse(cx, text, &s));
    return s;
}

static float *normals(int64_t count, uint64_t seed)
{
    float *x = sp_alloc_array(cx, (size_t)count, sizeof *x);
    assert_non_null(x);
    uint64_t state = seed * 2654435761u + 1;
    for (int64_t i = 0; i < count; i++) { /* a sum of uniform ones will do */
        double sum = 0;
        for (int k = 0; k < 6; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            sum += (double)(state >> 40) / (1 << 24) - 0.5;
        }
        x[i] = (float)sum;
    }
    return x;
}

/* Inputs that hang together, so that there is something to make up with. */
static sp_prune_met met_of(int64_t k, int64_t rows, bool hessian)
{
    sp_prune_met met;
    float *x = normals(rows * k, 7);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 1; j < k; j++) x[i * k + j] += 0.7f * x[i * k + j - 1];
    ok(sp_prune_met_create(cx, k, hessian, &met));
    const int64_t half = rows / 2;
    ok(sp_prune_met_add(cx, &met, &(sparta_tensor){SPARTA_F32, 2, {half, k}, {k, 1}, x, 0}));
    ok(sp_prune_met_add(cx, &met,
                        &(sparta_tensor){SPARTA_F32, 2, {rows - half, k}, {k, 1}, x + half * k, 0}));
    assert_int_equal(met.rows, rows);
    sp_free(cx, x);
    return met;
}

static void factors(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 63, 64, 65, 200, 300};
    for (size_t s = 0; s < SP_COUNT(sizes); s++) {
        const int64_t n = sizes[s];
        sp_prune_met met = met_of(n, 2 * n + 3, true);
        float *u = sp_alloc_array(cx, (size_t)(n * n), sizeof *u);
        double mean = 0, worst = 0;
        ok(sp_prune_factor(cx, n, met.hessian, u));
        for (int64_t i = 0; i < n; i++) mean += met.hessian[i * n + i] / (double)n;
        /* U H U' is the identity */
        double *uh = sp_alloc_array(cx, (size_t)n, sizeof *uh);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < i; j++) assert_true(u[i * n + j] == 0);
            for (int64_t j = 0; j < n; j++) {
                uh[j] = 0.01 * mean * u[i * n + j];
                for (int64_t k = i; k < n; k++)
                    uh[j] += (double)u[i * n + k] * met.hessian[SP_MIN(j, k) * n + SP_MAX(j, k)];
            }
            for (int64_t j = 0; j < n; j++) {
                double sum = 0;
                for (int64_t k = j; k < n; k++) sum += uh[k] * u[j * n + k];
                worst = SP_MAX(worst, fabs(sum - (i == j)));
            }
        }
        if (worst > 2e-3) fail_msg("%lld: %g away from the identity", (long long)n, worst);
        sp_free(cx, uh);
        sp_free(cx, u);
        sp_prune_met_free(cx, &met);
    }
}

/* The error of each method; the pattern holds (sp_prune would take nothing more). */
static double error_of(const char *text, sp_prune_method method, int64_t n, int64_t k)
{
    const sp_prune_spec spec = parse(text);
    sp_prune_met met = met_of(k, 600, method == SP_PRUNE_SPARSEGPT);
    float *w = normals(n * k, 3), *left = normals(n * k, 3);
    double error;
    if (method == SP_PRUNE_MAGNITUDE)
        ok(sp_prune(cx, &spec, &(sparta_tensor){SPARTA_F32, 2, {n, k}, {k, 1}, left, 0}, NULL));
    else
        ok(sp_prune_layer(cx, &spec, method, &met, n, left));
    ok(sp_prune_met_error(cx, &met, n, w, left, &error));
    if (spec.of && !spec.along_out)
        for (int64_t i = 0; i < n * k; i += spec.of) {
            int there = 0;
            for (int j = 0; j < spec.of; j++) there += left[i + j] != 0;
            assert_true(there <= spec.keep);
        }
    if (!spec.of && spec.block_n == 4)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < k; j++)
                assert_true((left[i * k + j] == 0) == (left[i / 4 * 4 * k + j] == 0));
    sp_free(cx, w);
    sp_free(cx, left);
    sp_prune_met_free(cx, &met);
    return error;
}

static void methods(void **state)
{
    (void)state;
    static const char *const specs[] = {"1x1:0.5", "2:4", "4x1:0.75", "2:4@out", "cols:0.25"};
    for (size_t i = 0; i < SP_COUNT(specs); i++) {
        const double plain = error_of(specs[i], SP_PRUNE_MAGNITUDE, 32, 160),
                     wanda = error_of(specs[i], SP_PRUNE_WANDA, 32, 160),
                     gpt = error_of(specs[i], SP_PRUNE_SPARSEGPT, 32, 160);
        if (!(gpt < 0.9 * plain && gpt < 0.9 * wanda && plain < 1 && wanda < 1.05))
            fail_msg("%s: magnitude %g, wanda %g, sparsegpt %g", specs[i], plain, wanda, gpt);
    }
}

/* |w| times norms: 1*4, 2*1, 3*1, 4*0 and 8*4, 1*1, 1.5*1, 9*0; half of each row goes. */
static void wanda_by_hand(void **state)
{
    (void)state;
    float w[8] = {1, 2, 3, 4, 8, 1, 1.5f, 9}, x[8] = {4, 0, 1, 0, 0, 1, 0, 0};
    static const float want[8] = {1, 0, 3, 0, 8, 0, 1.5f, 0};
    const sp_prune_spec spec = parse("1x1:0.5");
    sp_prune_met met;
    ok(sp_prune_met_create(cx, 4, false, &met));
    ok(sp_prune_met_add(cx, &met, &(sparta_tensor){SPARTA_F32, 2, {2, 4}, {4, 1}, x, 0}));
    ok(sp_prune_layer(cx, &spec, SP_PRUNE_WANDA, &met, 2, w));
    for (int i = 0; i < 8; i++) assert_true(w[i] == want[i]);
    sp_prune_met_free(cx, &met);
}

/* Inputs that are always 0, and fewer inputs than features: weights stay finite. */
static void odd_inputs(void **state)
{
    (void)state;
    const sp_prune_spec spec = parse("1x1:0.5");
    sp_prune_met met;
    float *x = normals(3 * 40, 1), *w = normals(8 * 40, 2);
    for (int i = 0; i < 3; i++) x[i * 40 + 5] = 0;
    ok(sp_prune_met_create(cx, 40, true, &met));
    ok(sp_prune_met_add(cx, &met, &(sparta_tensor){SPARTA_F32, 3, {1, 3, 40}, {120, 40, 1}, x, 0}));
    ok(sp_prune_layer(cx, &spec, SP_PRUNE_SPARSEGPT, &met, 8, w));
    for (int i = 0; i < 8 * 40; i++) assert_true(isfinite(w[i]));
    for (int i = 0; i < 8; i++) assert_true(w[i * 40 + 5] == 0);
    fails(SPARTA_E_UNSUPPORTED,
          sp_prune_met_add(cx, &met, &(sparta_tensor){SPARTA_F32, 2, {4, 30}, {30, 1}, x, 0}));
    x[0] = NAN;
    ok(sp_prune_met_add(cx, &met, &(sparta_tensor){SPARTA_F32, 2, {3, 40}, {40, 1}, x, 0}));
    fails(SPARTA_E_FORMAT, sp_prune_layer(cx, &spec, SP_PRUNE_SPARSEGPT, &met, 8, w));
    says("NaN or Inf");
    sp_free(cx, x);
    sp_free(cx, w);
    sp_prune_met_free(cx, &met);
}

static void out_of_memory(void **state)
{
    (void)state;
    const sp_prune_spec spec = parse("2:4");
    for (uint64_t nth = 1;; nth++) {
        sp_prune_met met = met_of(12, 30, true);
        float *w = normals(8 * 12, 2);
        const size_t before = sp_ctx_memory(cx);
        sp_ctx_fail_alloc(cx, nth, false);
        const sparta_status status = sp_prune_layer(cx, &spec, SP_PRUNE_SPARSEGPT, &met, 8, w);
        sp_ctx_fail_alloc(cx, 0, false);
        assert_int_equal(sp_ctx_memory(cx), before);
        sp_free(cx, w);
        sp_prune_met_free(cx, &met);
        if (status == SPARTA_OK) {
            assert_true(nth > 3);
            return;
        }
        assert_int_equal(status, SPARTA_E_MEMORY);
        assert_true(nth < 200);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(factors), cmocka_unit_test(methods),
                                       cmocka_unit_test(wanda_by_hand), cmocka_unit_test(odd_inputs),
                                       cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
