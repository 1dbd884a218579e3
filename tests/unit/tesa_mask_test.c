/* Masks and detection against a computation element by element. */
#include "bed.h"
#include <math.h>
#include "tesa/tesa.h"

static const int64_t shapes[][2] = {{0, 0},   {0, 5},   {5, 0},    {1, 1},    {1, 64},
                                    {1, 200}, {200, 1}, {3, 5},    {4, 63},   {63, 65},
                                    {64, 64}, {65, 63}, {130, 70}, {70, 130}, {128, 192}};

/* ------------------------------------------------------------------ mask_of */

/* A value of any type: often zero, sometimes one of the awkward ones. */
static void put(sp_rng *r, sparta_dtype dtype, void *data, int64_t at)
{
    static const double odd[] = {-0.0, INFINITY, -INFINITY, NAN, 1e-45, 6e-8, -1};
    uint64_t dice = sp_rng_next(r) >> 40;
    double v = dice % 3 ? 0 : dice % 5 ? (double)(dice % 100) + 1 : 0;
    if (dice % 7 == 0 && sp_dtype_is_float(dtype)) v = odd[dice / 7 % SP_COUNT(odd)];
    sp_element_set(dtype, data, at, v);
}

static bool naive_present(const sparta_tensor *t, int64_t n, int64_t k)
{
    return sp_element_get(t->dtype, t->data, n * t->stride[0] + k * t->stride[1]) != 0; /* NaN != 0 */
}

static void check_mask(const sparta_tensor *t)
{
    sp_mask m;
    assert_int_equal(sp_mask_of(cx, t, &m), SPARTA_OK);
    assert_int_equal(m.rows, t->dim[0]);
    assert_int_equal(m.cols, t->dim[1]);
    assert_int_equal(m.words, (t->dim[1] + 63) / 64);
    int64_t count = 0;
    for (int64_t n = 0; n < m.rows; n++)
        for (int64_t k = 0; k < m.words * 64; k++) {
            bool want = k < m.cols && naive_present(t, n, k); /* padding is 0 */
            assert_int_equal(sp_mask_get(&m, n, k), want);
            count += want;
        }
    assert_int_equal(sp_mask_count(&m), count);
    sp_mask_free(cx, &m);
}

static void every_type_shape_and_layout(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(7);
    for (int d = 0; d < SP_DTYPES; d++)
        for (size_t s = 0; s < SP_COUNT(shapes); s++) {
            int64_t n = shapes[s][0], k = shapes[s][1], room = (2 * n + 2) * (3 * k + 3);
            void *data = sp_alloc_array(cx, (size_t)room, 8);
            assert_non_null(data);
            for (int64_t i = 0; i < room; i++) put(&r, (sparta_dtype)d, data, i);
            const int64_t strides[][2] = {{k, 1}, {1, n}, {3 * k, 3}, {2, 2 * n}, {0, 1}, {1, 0}, {0, 0}};
            for (size_t l = 0; l < SP_COUNT(strides); l++) {
                sparta_tensor t = {(sparta_dtype)d, 2, {n, k}, {strides[l][0], strides[l][1]}, data, 0};
                check_mask(&t);
            }
            if (n && k) { /* backwards both ways: the first element is the last in memory */
                char *last = (char *)data + (size_t)(n * k - 1) * sparta_dtype_size((sparta_dtype)d);
                check_mask(&(sparta_tensor){(sparta_dtype)d, 2, {n, k}, {-k, -1}, last, 0});
                check_mask(&(sparta_tensor){(sparta_dtype)d, 2, {n, k}, {-1, -n}, last, 0});
            }
            sp_free(cx, data);
        }
}

static void full_and_single(void **state)
{
    (void)state;
    float w[65 * 67];
    for (int one = -1; one < 65 * 67; one += 129) {
        for (int i = 0; i < 65 * 67; i++) w[i] = one < 0 || i == one ? -2.5f : 0;
        check_mask(&(sparta_tensor){SPARTA_F32, 2, {65, 67}, {67, 1}, w, 0});
        check_mask(&(sparta_tensor){SPARTA_F32, 2, {67, 65}, {1, 67}, w, 0});
    }
}

static void wrong_shapes(void **state)
{
    (void)state;
    float w[8] = {0};
    sp_mask m = {.rows = 42}, other = {0};
    sparta_tensor t = {SPARTA_F32, 3, {2, 2, 2}, {4, 2, 1}, w, 0};
    assert_int_equal(sp_mask_of(cx, &t, &m), SPARTA_E_SHAPE);
    assert_int_equal(sp_mask_create(cx, -1, 3, &m), SPARTA_E_SHAPE);
    assert_int_equal(sp_mask_create(cx, INT64_MAX, INT64_MAX, &m), SPARTA_E_SHAPE);
    assert_int_equal(sp_mask_create(cx, INT64_MAX / 8, 64, &m), SPARTA_E_MEMORY);
    assert_int_equal(m.rows, 42); /* outputs are written last */
    assert_int_equal(sp_mask_create(cx, 2, 3, &m), SPARTA_OK);
    assert_int_equal(sp_mask_create(cx, 3, 2, &other), SPARTA_OK);
    sp_mask_free(cx, &m);
    sp_mask_free(cx, &other);
    sp_mask_free(cx, &other);
    sp_mask_free(cx, NULL);
}

/* A file may declare very many rows of nothing: no time may pass. */
static void many_rows_of_nothing(void **state)
{
    (void)state;
    sparta_tensor t = {SPARTA_F32, 2, {INT64_C(1) << 60, 0}, {0, 1}, NULL, 0};
    sp_mask m, tr;
    sp_pattern p;
    double fill = 5;
    assert_int_equal(sp_mask_of(cx, &t, &m), SPARTA_OK);
    assert_int_equal(sp_mask_count(&m), 0);
    assert_int_equal(sp_mask_transpose(cx, &m, &tr), SPARTA_OK);
    assert_int_equal(sp_mask_detect(cx, &m, 1, &p), SPARTA_OK);
    assert_string_equal(p.name, "empty");
    assert_int_equal(sp_mask_fill(cx, &m, 4, 1, &fill), SPARTA_OK);
    assert_true(fill == 0);
    assert_int_equal(sp_mask_detect(cx, &tr, 1, &p), SPARTA_OK);
    sp_mask_free(cx, &m);
    sp_mask_free(cx, &tr);
}

/* ------------------------------------------------------------------ algebra */

static sp_mask random_mask(sp_rng *r, int64_t rows, int64_t cols, double density)
{
    sp_mask m;
    assert_int_equal(sp_mask_create(cx, rows, cols, &m), SPARTA_OK);
    for (int64_t n = 0; n < rows; n++)
        for (int64_t k = 0; k < cols; k++)
            if (sp_rng_uniform(r) < density) sp_mask_set(&m, n, k);
    return m;
}

static void transpose_digest(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(11);
    for (size_t s = 0; s < SP_COUNT(shapes); s++) {
        int64_t rows = shapes[s][0], cols = shapes[s][1];
        sp_mask a = random_mask(&r, rows, cols, 0.6), c, t, tt;
        assert_int_equal(sp_mask_create(cx, rows, cols, &c), SPARTA_OK);
        for (int64_t i = 0; i < rows * a.words; i++) c.bits[i] = a.bits[i];
        assert_true(sp_mask_digest(&a) == sp_mask_digest(&c));
        assert_int_equal(sp_mask_transpose(cx, &a, &t), SPARTA_OK);
        assert_int_equal(t.rows, cols);
        assert_int_equal(t.cols, rows);
        for (int64_t n = 0; n < rows; n++)
            for (int64_t k = 0; k < cols; k++) {
                assert_int_equal(sp_mask_get(&t, k, n), sp_mask_get(&a, n, k));
            }
        assert_int_equal(sp_mask_count(&t), sp_mask_count(&a)); /* its padding is 0 */
        assert_int_equal(sp_mask_transpose(cx, &t, &tt), SPARTA_OK);
        assert_true(sp_mask_digest(&a) == sp_mask_digest(&tt));
        if (rows * cols > 0) { /* one bit changes it */
            a.bits[(rows - 1) * a.words] ^= 1;
            assert_true(sp_mask_digest(&a) != sp_mask_digest(&tt));
        }
        sp_mask *all[] = {&a, &c, &t, &tt};
        for (size_t i = 0; i < SP_COUNT(all); i++) sp_mask_free(cx, all[i]);
    }
    sp_mask a = random_mask(&r, 2, 3, 0), b = random_mask(&r, 3, 2, 0), c = random_mask(&r, 2, 4, 0);
    assert_true(sp_mask_digest(&a) != sp_mask_digest(&c)); /* the same words, another shape */
    assert_true(sp_mask_digest(&a) != sp_mask_digest(&b));
    sp_mask_free(cx, &a);
    sp_mask_free(cx, &b);
    sp_mask_free(cx, &c);
}

/* ------------------------------------------------------------------ detection */

static double naive_fill(const sp_mask *m, int n, int k)
{
    int64_t blocks = 0, present = 0;
    for (int64_t n0 = 0; n0 < m->rows; n0 += n)
        for (int64_t k0 = 0; k0 < m->cols; k0 += k) {
            int64_t in = 0;
            for (int64_t i = n0; i < SP_MIN(m->rows, n0 + n); i++)
                for (int64_t j = k0; j < SP_MIN(m->cols, k0 + k); j++) in += sp_mask_get(m, i, j);
            blocks += in > 0;
            present += in;
        }
    return present ? (double)(blocks * n * k) / (double)present : 0;
}

/* The naive choice over all 49 sizes. */
static void check_detect(const sp_mask *m, double slack)
{
    sp_pattern p;
    assert_int_equal(sp_mask_detect(cx, m, slack, &p), SPARTA_OK);
    int best_n = 1, best_m = 1;
    for (int n = 1; n <= 64; n *= 2)
        for (int k = 1; k <= 64; k *= 2) {
            double f = naive_fill(m, n, k);
            if (f > 0 && f <= slack && (n * k > best_n * best_m || (n * k == best_n * best_m && n > best_n)))
                best_n = n, best_m = k;
        }
    assert_int_equal(p.block_n, best_n);
    assert_int_equal(p.block_m, best_m);
    assert_true(fabs(p.fill - naive_fill(m, best_n, best_m)) < 1e-12);
    int64_t empty_rows = 0, empty_cols = 0;
    for (int64_t n = 0; n < m->rows; n++) {
        bool any = false;
        for (int64_t k = 0; k < m->cols; k++) any |= sp_mask_get(m, n, k);
        empty_rows += !any;
    }
    for (int64_t k = 0; k < m->cols; k++) {
        bool any = false;
        for (int64_t n = 0; n < m->rows; n++) any |= sp_mask_get(m, n, k);
        empty_cols += !any;
    }
    assert_int_equal(p.empty_rows, empty_rows);
    assert_int_equal(p.empty_cols, empty_cols);
    int64_t all = m->rows * m->cols;
    assert_true(fabs(p.density - (all ? (double)sp_mask_count(m) / (double)all : 0)) < 1e-12);
    assert_int_equal(p.dense, all && sp_mask_count(m) == all);
}

/* Whole blocks, each present with a chance; then a few elements taken away. */
static sp_mask block_mask(sp_rng *r, int64_t rows, int64_t cols, int n, int k, double density, int holes)
{
    sp_mask m = random_mask(r, rows, cols, 0);
    for (int64_t n0 = 0; n0 < rows; n0 += n)
        for (int64_t k0 = 0; k0 < cols; k0 += k)
            if (sp_rng_uniform(r) < density)
                for (int64_t i = n0; i < SP_MIN(rows, n0 + n); i++)
                    for (int64_t j = k0; j < SP_MIN(cols, k0 + k); j++) sp_mask_set(&m, i, j);
    for (; holes > 0 && rows > 0 && cols > 0; holes--) {
        int64_t i = (int64_t)(sp_rng_next(r) % (uint64_t)rows),
                j = (int64_t)(sp_rng_next(r) % (uint64_t)cols);
        m.bits[i * m.words + j / 64] &= ~(UINT64_C(1) << (j % 64));
    }
    return m;
}

static void detection_against_naive(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(23);
    for (int n = 1; n <= 64; n *= 2)
        for (int k = 1; k <= 64; k *= 2)
            for (int holes = 0; holes <= 3; holes += 3) {
                sp_mask even = block_mask(&r, 128, 192, n, k, 0.3, holes),
                        odd = block_mask(&r, 130, 71, n, k, 0.3, holes);
                check_detect(&even, 1);
                check_detect(&even, 1.05);
                check_detect(&odd, 1);
                check_detect(&odd, 1.3);
                sp_mask_free(cx, &even);
                sp_mask_free(cx, &odd);
            }
    for (size_t s = 0; s < SP_COUNT(shapes); s++)
        for (double density = 0; density <= 1; density += 0.25) {
            sp_mask m = random_mask(&r, shapes[s][0], shapes[s][1], density);
            check_detect(&m, 1);
            check_detect(&m, 1.5);
            sp_mask_free(cx, &m);
        }
}

static void expect_name(sp_mask m, double slack, const char *name)
{
    sp_pattern p;
    assert_int_equal(sp_mask_detect(cx, &m, slack, &p), SPARTA_OK);
    assert_string_equal(p.name, name);
    sp_mask_free(cx, &m);
}

static void names(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(5);
    expect_name(random_mask(&r, 100, 100, 0), 1, "empty");
    expect_name(random_mask(&r, 0, 100, 0), 1, "empty");
    expect_name(random_mask(&r, 7, 9, 2), 1, "dense");
    expect_name(random_mask(&r, 100, 100, 0.3), 1, "1x1");
    expect_name(block_mask(&r, 64, 100, 4, 1, 0.1, 0), 1, "4x1");
    expect_name(block_mask(&r, 64, 96, 16, 4, 0.1, 0), 1, "16x4");
    expect_name(block_mask(&r, 64, 100, 1, 100, 0.5, 0), 1, "rows");
    expect_name(block_mask(&r, 100, 70, 100, 1, 0.5, 0), 1, "cols");
    expect_name(block_mask(&r, 256, 256, 4, 1, 0.1, 3), 1.05, "4x1"); /* three holes: nearly */
    sp_pattern p = {.block_n = 42};
    sp_mask m = random_mask(&r, 3, 3, 1);
    assert_int_equal(sp_mask_detect(cx, &m, 0.9, &p), SPARTA_E_USAGE);
    assert_int_equal(sp_mask_detect(cx, &m, NAN, &p), SPARTA_E_USAGE);
    assert_int_equal(p.block_n, 42);
    sp_mask_free(cx, &m);
}

static void fill_of_any_block(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(31);
    static const int sizes[] = {1, 2, 3, 5, 7, 16, 63, 64, 65, 200};
    double fill;
    for (size_t s = 0; s < SP_COUNT(shapes); s++) {
        sp_mask m = random_mask(&r, shapes[s][0], shapes[s][1], s % 3 ? 0.05 : 0.5);
        for (size_t i = 0; i < SP_COUNT(sizes); i++)
            for (size_t j = 0; j < SP_COUNT(sizes); j++) {
                assert_int_equal(sp_mask_fill(cx, &m, sizes[i], sizes[j], &fill), SPARTA_OK);
                assert_true(fabs(fill - naive_fill(&m, sizes[i], sizes[j])) < 1e-9);
            }
        assert_int_equal(sp_mask_fill(cx, &m, 0, 1, &fill), SPARTA_E_USAGE);
        assert_int_equal(sp_mask_fill(cx, &m, 1, -4, &fill), SPARTA_E_USAGE);
        assert_int_equal(sp_mask_fill(cx, &m, INT32_MAX, INT32_MAX, &fill), SPARTA_OK);
        sp_mask_free(cx, &m);
    }
}

/* ------------------------------------------------------------------ memory and cancellation */

static sparta_status everything(const sparta_tensor *t)
{
    sp_mask m = {0}, tr = {0};
    sp_pattern p;
    double fill;
    sparta_status status = sp_mask_of(cx, t, &m);
    if (!status) status = sp_mask_transpose(cx, &m, &tr);
    if (!status) status = sp_mask_detect(cx, &m, 1, &p);
    if (!status) status = sp_mask_fill(cx, &m, 4, 1, &fill);
    sp_mask_free(cx, &m);
    sp_mask_free(cx, &tr);
    return status;
}

static void out_of_memory(void **state)
{
    (void)state;
    float w[100] = {1, 0, 2};
    sparta_tensor t = {SPARTA_F32, 2, {10, 10}, {10, 1}, w, 0};
    size_t before = sp_ctx_memory(cx);
    uint64_t nth = 1;
    for (;; nth++) {
        sp_ctx_fail_alloc(cx, nth, false);
        sparta_status status = everything(&t);
        sp_ctx_fail_alloc(cx, 0, false);
        assert_int_equal(sp_ctx_memory(cx), before);
        if (status == SPARTA_OK) break;
        assert_int_equal(status, SPARTA_E_MEMORY);
        assert_true(nth < 100);
    }
    assert_true(nth > 4); /* four allocations at least were refused */
}

static void cancelled(void **state)
{
    (void)state;
    sparta_ctx *other = sparta_ctx_create(NULL);
    sp_mask m;
    sp_pattern p;
    assert_int_equal(sp_mask_create(other, 100, 100, &m), SPARTA_OK);
    sparta_ctx_cancel(other);
    assert_int_equal(sp_mask_detect(other, &m, 1, &p), SPARTA_E_CANCELLED);
    sp_mask_free(other, &m);
    assert_int_equal(sp_ctx_memory(other), 0);
    sparta_ctx_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_type_shape_and_layout),
                                       cmocka_unit_test(full_and_single),
                                       cmocka_unit_test(wrong_shapes),
                                       cmocka_unit_test(many_rows_of_nothing),
                                       cmocka_unit_test(transpose_digest),
                                       cmocka_unit_test(detection_against_naive),
                                       cmocka_unit_test(names),
                                       cmocka_unit_test(fill_of_any_block),
                                       cmocka_unit_test(out_of_memory),
                                       cmocka_unit_test(cancelled)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
