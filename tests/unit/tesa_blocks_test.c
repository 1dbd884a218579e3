/* From elements to blocks and back, against plain loops over elements, with the law that ties them; permutations. */
#include "tesa_bed.h"

#define get sp_mask_get

static const int64_t sides[] = {1, 2, 3, 4, 5, 7, 8, 16, 32, 33, 64, 65, 128, 1000, INT64_C(1) << 60};

static void check_blocks(const sp_mask *m, int64_t n, int64_t k)
{
    sp_mask any;
    ok(sp_mask_coarsen(cx, m, n, k, &any));
    check_padding(&any);
    for (int64_t b = 0; b < any.rows; b++)
        for (int64_t c = 0; c < any.cols; c++) {
            bool in = false;
            for (int64_t i = b * n; i < m->rows && i - b * n < n; i++)
                for (int64_t j = c * k; j < m->cols && j - c * k < k; j++) in |= get(m, i, j);
            assert_int_equal(get(&any, b, c), in);
        }
    FREE(&any);
}

static void coarsen(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(6);
    for (size_t s = 0; s < SP_COUNT(shapes); s++)
        for (size_t i = 0; i < SP_COUNT(sides); i++)
            for (int t = 0; t < 3; t++) {
                static const double density[] = {0.02, 0.97, 1};
                sp_mask m = random_mask(&r, shapes[s][0], shapes[s][1], density[t]);
                check_blocks(&m, sides[i], sides[(i * 7 + (size_t)t + s) % SP_COUNT(sides)]);
                check_blocks(&m, sides[(i * 11 + s) % SP_COUNT(sides)], sides[i]);
                FREE(&m);
            }
    sp_mask m = mask_of_shape(2, 3), out;
    assert_int_equal(sp_mask_coarsen(cx, &m, 0, 1, &out), SPARTA_E_USAGE);
    assert_int_equal(sp_mask_coarsen(cx, &m, 1, -4, &out), SPARTA_E_USAGE);
    FREE(&m);
}

/* coarsen(x) within b <=> x within refine(b). */
static void adjoint(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(7);
    int both[2] = {0};
    for (int round = 0; round < 4000; round++) {
        int64_t shape[2] = {1 + below(&r, 9), 1 + below(&r, 140)}, n = sides[below(&r, 8)],
                k = sides[below(&r, 12)];
        bool dense = round % 2;
        sp_mask x = random_mask(&r, shape[0], shape[1], dense ? 0.98 : 0.02), any, wide, b;
        ok(sp_mask_coarsen(cx, &x, n, k, &any));
        b = random_mask(&r, any.rows, any.cols, dense ? 0.2 : 0.9);
        ok(sp_mask_refine(cx, &b, n, k, shape, &wide));
        check_padding(&wide);
        for (int64_t i = 0; i < shape[0]; i++)
            for (int64_t j = 0; j < shape[1]; j++) assert_int_equal(get(&wide, i, j), get(&b, i / n, j / k));
        assert_int_equal(mask_within(&any, &b), mask_within(&x, &wide));
        both[mask_within(&any, &b)]++;
        FREE(&x, &any, &wide, &b);
    }
    assert_true(both[0] > 500 && both[1] > 500); /* both answers were seen often */
    sp_mask b = mask_of_shape(2, 3), out;
    assert_int_equal(sp_mask_refine(cx, &b, 4, 4, (int64_t[]){9, 12}, &out), SPARTA_E_SHAPE);
    assert_int_equal(sp_mask_refine(cx, &b, 4, 4, (int64_t[]){-8, 12}, &out), SPARTA_E_SHAPE);
    assert_int_equal(sp_mask_refine(cx, &b, 0, 4, (int64_t[]){8, 12}, &out), SPARTA_E_USAGE);
    FREE(&b);
}

static void permutations(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(8);
    sp_mask m = random_mask(&r, 5, 70, 0.5), p = {.rows = 42};
    ok(sp_mask_permute(cx, &m, (int64_t[]){4, 0, 3, 1, 2}, &p));
    for (int64_t j = 0; j < 70; j++) {
        assert_int_equal(get(&p, 0, j), get(&m, 4, j));
        assert_int_equal(get(&p, 4, j), get(&m, 2, j));
    }
    sp_mask out = {.rows = 42};
    assert_int_equal(sp_mask_permute(cx, &m, (int64_t[]){4, 0, 3, 1, 4}, &out), SPARTA_E_USAGE);
    assert_int_equal(sp_mask_permute(cx, &m, (int64_t[]){4, 0, 3, 1, 5}, &out), SPARTA_E_USAGE);
    assert_int_equal(sp_mask_permute(cx, &m, (int64_t[]){4, 0, 3, 1, -1}, &out), SPARTA_E_USAGE);
    assert_int_equal(out.rows, 42);
    FREE(&m, &p);
}

/* A file may declare very many rows of nothing: no time may pass and nothing may overflow. */
static void many_rows_of_nothing(void **state)
{
    (void)state;
    const int64_t many = INT64_C(1) << 60;
    sp_mask m = mask_of_shape(many, 0), a, b;
    ok(sp_mask_coarsen(cx, &m, 1, 4, &a));
    ok(sp_mask_refine(cx, &a, 1, 4, (int64_t[]){many, 0}, &b));
    assert_true(same_mask(&b, &m));
    FREE(&m, &a, &b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(coarsen), cmocka_unit_test(adjoint),
                                       cmocka_unit_test(permutations),
                                       cmocka_unit_test(many_rows_of_nothing)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
