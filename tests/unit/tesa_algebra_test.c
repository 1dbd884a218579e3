/* The algebra against plain loops over elements, and its laws, on random masks. */
#include "tesa_bed.h"

#define get sp_mask_get

static void element_by_element(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(1);
    for (size_t s = 0; s < SP_COUNT(shapes); s++) {
        int64_t rows = shapes[s][0], cols = shapes[s][1];
        sp_mask a = random_mask(&r, rows, cols, 0.5), b = random_mask(&r, rows, cols, 0.5), o, d, n;
        OK(sp_mask_copy(cx, &a, &o));
        OK(sp_mask_copy(cx, &a, &d));
        OK(sp_mask_copy(cx, &a, &n));
        assert_true(sp_mask_equal(&a, &n));
        OK(sp_mask_or(cx, &o, &b));
        OK(sp_mask_andnot(cx, &d, &b));
        sp_mask_not(&n);
        bool within = true;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++) {
                assert_int_equal(get(&o, i, j), get(&a, i, j) || get(&b, i, j));
                assert_int_equal(get(&d, i, j), get(&a, i, j) && !get(&b, i, j));
                assert_int_equal(get(&n, i, j), !get(&a, i, j));
                within &= !get(&a, i, j) || get(&b, i, j);
            }
        check_padding(&n);
        assert_int_equal(sp_mask_within(&a, &b), within);
        assert_true(sp_mask_within(&a, &o) && sp_mask_within(&d, &a));
        assert_int_equal(sp_mask_equal(&a, &n), rows * cols == 0);
        FREE(&a, &b, &o, &d, &n);
    }
    sp_mask a = mask_of_shape(2, 3), b = mask_of_shape(3, 2);
    assert_int_equal(sp_mask_or(cx, &a, &b), SPARTA_E_SHAPE);
    assert_int_equal(sp_mask_andnot(cx, &a, &b), SPARTA_E_SHAPE);
    assert_false(sp_mask_equal(&a, &b));
    assert_false(sp_mask_within(&a, &b));
    FREE(&a, &b);
}

/* De Morgan, distribution, absorption; transposition goes through all of them. */
static void laws(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(2);
    for (int round = 0; round < 300; round++) {
        int64_t rows = below(&r, 80), cols = below(&r, 150);
        sp_mask a = random_mask(&r, rows, cols, 0.4), b = random_mask(&r, rows, cols, 0.4);
        sp_mask left, right, at, bt, lt;
        OK(sp_mask_copy(cx, &a, &left)); /* not (a or b) */
        OK(sp_mask_or(cx, &left, &b));
        sp_mask_not(&left);
        OK(sp_mask_copy(cx, &a, &right)); /* not a andnot b */
        sp_mask_not(&right);
        OK(sp_mask_andnot(cx, &right, &b));
        assert_true(sp_mask_equal(&left, &right));
        assert_true(sp_mask_digest(&left) == sp_mask_digest(&right));
        OK(sp_mask_transpose(cx, &a, &at));
        OK(sp_mask_transpose(cx, &b, &bt));
        OK(sp_mask_transpose(cx, &left, &lt));
        OK(sp_mask_or(cx, &at, &bt));
        sp_mask_not(&at);
        assert_true(sp_mask_equal(&at, &lt));
        OK(sp_mask_or(cx, &left, &a)); /* a or not (a or b) = not (b andnot a) */
        OK(sp_mask_andnot(cx, &b, &a));
        sp_mask_not(&b);
        assert_true(sp_mask_equal(&left, &b));
        FREE(&a, &b, &left, &right, &at, &bt, &lt);
    }
}

static void slices_and_concat(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(3);
    for (int round = 0; round < 300; round++) {
        int64_t rows = 1 + below(&r, 40), cols = 1 + below(&r, 300);
        int64_t n = below(&r, rows + 1), k = below(&r, cols + 1);
        sp_mask m = random_mask(&r, rows, cols, 0.5), quarter[4], half[2], whole;
        for (int q = 0; q < 4; q++) {
            int64_t rr[2] = {q / 2 ? n : 0, q / 2 ? rows : n}, cc[2] = {q % 2 ? k : 0, q % 2 ? cols : k};
            OK(sp_mask_slice(cx, &m, rr, cc, &quarter[q]));
            check_padding(&quarter[q]);
            for (int64_t i = rr[0]; i < rr[1]; i++)
                for (int64_t j = cc[0]; j < cc[1]; j++)
                    assert_int_equal(get(&quarter[q], i - rr[0], j - cc[0]), get(&m, i, j));
        }
        for (int h = 0; h < 2; h++)
            OK(sp_mask_concat(cx, SP_ALONG_COLS, (const sp_mask *[]){&quarter[2 * h], &quarter[2 * h + 1]}, 2,
                              &half[h]));
        OK(sp_mask_concat(cx, SP_ALONG_ROWS, (const sp_mask *[]){&half[0], &half[1]}, 2, &whole));
        assert_true(sp_mask_equal(&whole, &m));
        FREE(&m, &quarter[0], &quarter[1], &quarter[2], &quarter[3], &half[0], &half[1], &whole);
    }
    sp_mask a = mask_of_shape(2, 3), b = mask_of_shape(3, 2), out = {.rows = 42};
    const sp_mask *both[] = {&a, &b};
    assert_int_equal(sp_mask_concat(cx, SP_ALONG_COLS, both, 2, &out), SPARTA_E_SHAPE);
    assert_int_equal(sp_mask_concat(cx, SP_ALONG_ROWS, both, 2, &out), SPARTA_E_SHAPE);
    assert_int_equal(sp_mask_concat(cx, SP_ALONG_ROWS, both, 0, &out), SPARTA_E_USAGE);
    static const int64_t bad[][2] = {{-1, 1}, {2, 1}, {0, 4}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sp_mask_slice(cx, &a, bad[i], (int64_t[]){0, 1}, &out), SPARTA_E_SHAPE);
        assert_int_equal(sp_mask_slice(cx, &a, (int64_t[]){0, 1}, bad[i % 2], &out), SPARTA_E_SHAPE);
    }
    assert_int_equal(out.rows, 42);
    FREE(&a, &b);
}

static void broadcast_and_reduce(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(4);
    for (size_t s = 3; s < SP_COUNT(shapes); s++) {
        int64_t rows = shapes[s][0], cols = shapes[s][1];
        sp_mask m = random_mask(&r, rows, cols, 0.02), over_n, over_k, wide, tall;
        OK(sp_mask_reduce(cx, &m, SP_ALONG_ROWS, &over_n));
        OK(sp_mask_reduce(cx, &m, SP_ALONG_COLS, &over_k));
        for (int64_t j = 0; j < cols; j++) {
            bool any = false;
            for (int64_t i = 0; i < rows; i++) any |= get(&m, i, j);
            assert_int_equal(get(&over_n, 0, j), any);
        }
        for (int64_t i = 0; i < rows; i++) {
            bool any = false;
            for (int64_t j = 0; j < cols; j++) any |= get(&m, i, j);
            assert_int_equal(get(&over_k, i, 0), any);
        }
        OK(sp_mask_broadcast(cx, &over_n, rows, cols, &wide));
        OK(sp_mask_broadcast(cx, &over_k, rows, cols, &tall));
        check_padding(&wide), check_padding(&tall);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++) {
                assert_int_equal(get(&wide, i, j), get(&over_n, 0, j));
                assert_int_equal(get(&tall, i, j), get(&over_k, i, 0));
            }
        assert_true(sp_mask_within(&m, &wide) && sp_mask_within(&m, &tall));
        FREE(&m, &over_n, &over_k, &wide, &tall);
    }
    sp_mask m = mask_of_shape(2, 3), out = {.rows = 42};
    assert_int_equal(sp_mask_broadcast(cx, &m, 4, 3, &out), SPARTA_E_SHAPE);
    assert_int_equal(sp_mask_broadcast(cx, &m, 2, 6, &out), SPARTA_E_SHAPE);
    assert_int_equal(out.rows, 42);
    FREE(&m);
}

static void products(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(5);
    for (int round = 0; round < 60; round++) {
        int64_t n = below(&r, 40), k = below(&r, 90), m = below(&r, 90);
        sp_mask a = random_mask(&r, n, k, 0.05), b = random_mask(&r, k, m, 0.05), c, at, bt, ct, other;
        OK(sp_mask_product(cx, &a, &b, &c));
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < m; j++) {
                bool any = false;
                for (int64_t l = 0; l < k; l++) any |= get(&a, i, l) && get(&b, l, j);
                assert_int_equal(get(&c, i, j), any);
            }
        OK(sp_mask_transpose(cx, &a, &at)); /* (ab)' = b'a' */
        OK(sp_mask_transpose(cx, &b, &bt));
        OK(sp_mask_transpose(cx, &c, &ct));
        OK(sp_mask_product(cx, &bt, &at, &other));
        assert_true(sp_mask_equal(&ct, &other));
        FREE(&a, &b, &c, &at, &bt, &ct, &other);
    }
    sp_mask a = mask_of_shape(2, 3), out;
    assert_int_equal(sp_mask_product(cx, &a, &a, &out), SPARTA_E_SHAPE);
    FREE(&a);
}

static const int64_t sides[] = {1, 2, 3, 4, 5, 7, 8, 16, 32, 33, 64, 65, 128, 1000, INT64_C(1) << 60};

static void check_blocks(const sp_mask *m, int64_t n, int64_t k)
{
    sp_mask any, all;
    int64_t *count;
    OK(sp_mask_coarsen(cx, m, n, k, SP_COARSEN_ANY, &any));
    OK(sp_mask_coarsen(cx, m, n, k, SP_COARSEN_ALL, &all));
    OK(sp_mask_block_counts(cx, m, n, k, &count));
    check_padding(&any), check_padding(&all);
    for (int64_t b = 0; b < any.rows; b++)
        for (int64_t c = 0; c < any.cols; c++) {
            int64_t in = 0, size = 0;
            for (int64_t i = b * n; i < m->rows && i - b * n < n; i++)
                for (int64_t j = c * k; j < m->cols && j - c * k < k; j++, size++) in += get(m, i, j);
            assert_int_equal(get(&any, b, c), in > 0);
            assert_int_equal(get(&all, b, c), in == size);
            assert_int_equal(count[b * any.cols + c], in);
        }
    sp_free(cx, count);
    FREE(&any, &all);
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
    int64_t *count;
    assert_int_equal(sp_mask_coarsen(cx, &m, 0, 1, SP_COARSEN_ANY, &out), SPARTA_E_USAGE);
    assert_int_equal(sp_mask_coarsen(cx, &m, 1, -4, SP_COARSEN_ALL, &out), SPARTA_E_USAGE);
    assert_int_equal(sp_mask_block_counts(cx, &m, 1, 0, &count), SPARTA_E_USAGE);
    FREE(&m);
}

/* any(x) within b <=> x within refine(b);  refine(b) within x <=> b within all(x). */
static void adjoint(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(7);
    int both[2] = {0};
    for (int round = 0; round < 4000; round++) {
        int64_t shape[2] = {1 + below(&r, 9), 1 + below(&r, 140)}, n = sides[below(&r, 8)],
                k = sides[below(&r, 12)];
        bool dense = round % 2;
        sp_mask x = random_mask(&r, shape[0], shape[1], dense ? 0.98 : 0.02), any, all, wide, b;
        OK(sp_mask_coarsen(cx, &x, n, k, SP_COARSEN_ANY, &any));
        OK(sp_mask_coarsen(cx, &x, n, k, SP_COARSEN_ALL, &all));
        b = random_mask(&r, any.rows, any.cols, dense ? 0.2 : 0.9);
        OK(sp_mask_refine(cx, &b, n, k, shape, &wide));
        check_padding(&wide);
        for (int64_t i = 0; i < shape[0]; i++)
            for (int64_t j = 0; j < shape[1]; j++) assert_int_equal(get(&wide, i, j), get(&b, i / n, j / k));
        assert_int_equal(sp_mask_within(&any, &b), sp_mask_within(&x, &wide));
        assert_int_equal(sp_mask_within(&wide, &x), sp_mask_within(&b, &all));
        both[sp_mask_within(&any, &b)]++, both[sp_mask_within(&wide, &x)]++;
        FREE(&x, &any, &all, &wide, &b);
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
    OK(sp_mask_permute(cx, &m, (int64_t[]){4, 0, 3, 1, 2}, &p));
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
    int64_t many = INT64_C(1) << 60;
    sp_mask m = mask_of_shape(many, 0), a, b, c, d;
    int64_t *count;
    sp_mask_not(&m);
    OK(sp_mask_copy(cx, &m, &a));
    OK(sp_mask_or(cx, &a, &m));
    assert_true(sp_mask_equal(&a, &m) && sp_mask_within(&a, &m));
    OK(sp_mask_slice(cx, &m, (int64_t[]){5, many}, (int64_t[]){0, 0}, &b));
    OK(sp_mask_concat(cx, SP_ALONG_ROWS, (const sp_mask *[]){&a, &b}, 2, &c));
    OK(sp_mask_coarsen(cx, &m, 1, 4, SP_COARSEN_ALL, &d));
    OK(sp_mask_block_counts(cx, &m, 1, 1, &count));
    sp_free(cx, count);
    FREE(&d);
    OK(sp_mask_broadcast(cx, &m, many, 0, &d));
    assert_int_equal(
        sp_mask_concat(cx, SP_ALONG_ROWS, (const sp_mask *[]){&m, &m, &m, &m, &m, &m, &m, &m}, 8, &d),
        SPARTA_E_SHAPE);
    FREE(&m, &a, &b, &c, &d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(element_by_element),
                                       cmocka_unit_test(laws),
                                       cmocka_unit_test(slices_and_concat),
                                       cmocka_unit_test(broadcast_and_reduce),
                                       cmocka_unit_test(products),
                                       cmocka_unit_test(coarsen),
                                       cmocka_unit_test(adjoint),
                                       cmocka_unit_test(permutations),
                                       cmocka_unit_test(many_rows_of_nothing)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
