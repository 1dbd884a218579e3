/* Twins that go along lines (builtin/quick.h) against their references: running sums, extremes, the k largest, gathers,
 * normalisations, bools, by one thread and by three (sp_pool_create). */
#include "builtin_quick_bed.h"

/* (outer, n, inner), with the axis in the middle: edges of vectors and of chunks, one element, one column. */
static const int64_t shapes[][3] = {{1, 1, 1},    {3, 5, 1},    {2, 200, 1},  {1, 67, 3},
                                    {4, 17, 33},  {2, 2, 70},   {1, 3, 16},   {2, 9, 1030},
                                    {1, 300, 40}, {1, 1, 2051}, {2000, 50, 4}};

static void spoil(float *x, int64_t n, int how)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, -0.0f};
    for (int64_t i = how; how > 0 && i < n; i += 41) x[i] = bad[(i / 41 + how) % how];
}

/* ------------------------------------------------------------------ running sums */
static void cumsum(void **state)
{
    (void)state;
    int64_t axis = 1;
    for (size_t i = 0; i < SP_COUNT(shapes); i++)
        for (int way = 0; way < 8; way++) {
            sparta_tensor in[2] = {random_floats(3, shapes[i], 1),
                                   sparta_tensor_view(SPARTA_I64, 0, NULL, &axis)};
            sparta_tensor out = sparta_tensor_view(SPARTA_F32, 3, shapes[i], NULL);
            if (way & 4) spoil(in[0].data, sparta_tensor_elements(&in[0]), 4);
            const sp_attrs *attrs = ATTRS(INT("reverse", way & 1), INT("exclusive", way >> 1 & 1));
            twin(SP_OP_CumSum, attrs, 2, in, 1, &out, sp_quick_CumSum, true);
            sp_free(cx, in[0].data);
        }
}

/* Integers wrap. */
static void cumsum_integers(void **state)
{
    (void)state;
    int64_t axis = -2;
    for (size_t i = 0; i < SP_COUNT(shapes); i++)
        for (int way = 0; way < 4; way++) {
            sparta_tensor in[2] = {{0}, sparta_tensor_view(SPARTA_I64, 0, NULL, &axis)};
            ok(sp_tensor_alloc(cx, SPARTA_I64, 3, shapes[i], &in[0]));
            int64_t *x = in[0].data, n = sparta_tensor_elements(&in[0]);
            for (int64_t k = 0; k < n; k++) x[k] = k % 7 ? k * 3 - 11 : INT64_MAX - k;
            const sparta_tensor out = sparta_tensor_view(SPARTA_I64, 3, shapes[i], NULL);
            const sp_attrs *attrs = ATTRS(INT("reverse", way & 1), INT("exclusive", way >> 1));
            twin(SP_OP_CumSum, attrs, 2, in, 1, &out, sp_quick_CumSum, true);
            sp_free(cx, in[0].data);
        }
}

/* Many tenths along the axis: a sum in f32 drifts away by a thousandth. */
static void cumsum_is_as_good_at_the_end(void **state)
{
    (void)state;
    int64_t axis = 0;
    const int64_t dim[] = {1 << 18, 2};
    sparta_tensor in[2] = {random_floats(2, dim, 1), sparta_tensor_view(SPARTA_I64, 0, NULL, &axis)};
    for (int64_t i = 0; i < dim[0] * dim[1]; i++) ((float *)in[0].data)[i] = .1f;
    const sparta_tensor out = sparta_tensor_view(SPARTA_F32, 2, dim, NULL);
    twin(SP_OP_CumSum, &none, 2, in, 1, &out, sp_quick_CumSum, true);
    sp_free(cx, in[0].data);
}

/* ------------------------------------------------------------------ extremes */
static void extremes(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(shapes); i++)
        for (int way = 0; way < 16; way++) {
            const int64_t to[] = {shapes[i][0], shapes[i][2]};
            sparta_tensor x = random_floats(3, shapes[i], 2);
            float *v = x.data;
            const int64_t n = sparta_tensor_elements(&x);
            for (int64_t k = 0; k < n && way & 4; k++)
                v[k] = roundf(4 * v[k]) / 4; /* many are equal, 0 and -0 too */
            if (way & 8) spoil(v, n, 4);
            const sparta_tensor out = sparta_tensor_view(SPARTA_I64, 2, to, NULL);
            const sp_attrs *attrs =
                ATTRS(INT("axis", 1), INT("keepdims", 0), INT("select_last_index", way >> 1 & 1));
            twin(way & 1 ? SP_OP_ArgMin : SP_OP_ArgMax, attrs, 1, &x, 1, &out,
                 way & 1 ? sp_quick_ArgMin : sp_quick_ArgMax, true);
            sp_free(cx, x.data);
        }
}

static void top_k(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1},   {3, 7, 7},      {2, 50, 1},
                                       {5, 129, 8}, {1, 1000, 333}, {700, 90, 5}};
    for (size_t i = 0; i < SP_COUNT(sizes); i++)
        for (int way = 0; way < 8; way++) {
            int64_t k = sizes[i][2];
            sparta_tensor in[2] = {random_floats(2, sizes[i], 3),
                                   sparta_tensor_view(SPARTA_I64, 1, (int64_t[]){1}, &k)};
            float *v = in[0].data;
            const int64_t n = sparta_tensor_elements(&in[0]), to[] = {sizes[i][0], k};
            for (int64_t e = 0; e < n && way & 2; e++) v[e] = roundf(4 * v[e]) / 4;
            if (way & 4) spoil(v, n, 3);
            const sparta_tensor out[] = {sparta_tensor_view(SPARTA_F32, 2, to, NULL),
                                         sparta_tensor_view(SPARTA_I64, 2, to, NULL)};
            twin(SP_OP_TopK, ATTRS(INT("largest", way & 1)), 2, in, 2, out, sp_quick_TopK, true);
            sp_free(cx, v);
        }
}

/* Ties, NaN, Inf, zeros of both signs, magnitudes that differ in their last bit; bounds from one to more than there are. */
static void sparsify(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{1, 1}, {3, 7}, {2, 64}, {5, 129}, {1, 5000}, {1, 9000}, {300, 90}};
    static const int64_t keeps[] = {0, 1, 2, 33, 64, 4999, 100000};
    for (size_t i = 0; i < SP_COUNT(sizes); i++)
        for (int way = 0; way < 16; way++)
            for (size_t k = 0; k < SP_COUNT(keeps); k++) {
                sparta_tensor x = random_floats(2, sizes[i], 11 + (uint64_t)way), out = x;
                float *v = x.data;
                for (int64_t e = 0, n = sparta_tensor_elements(&x); e < n; e++) {
                    if (way & 2) v[e] = roundf(4 * v[e]) / 4; /* many ties and zeros of both signs */
                    if (way & 4 && e % 3) v[e] = nextafterf(v[e] < 0 ? -1 : 1, e % 2 ? 2 : 0);
                    if (way & 8 && e % 13 == 5) v[e] = e % 2 ? NAN : -INFINITY;
                }
                const bool banded = (way + (int)k) % 3 == 0; /* wider and narrower than there is */
                const sp_attrs *attrs = ATTRS(INT("keep", keeps[k]), FLOAT("above", way & 1 ? .5f : 0),
                                              INT("left", banded ? (int64_t)k * way : -1),
                                              INT("right", banded ? keeps[way % SP_COUNT(keeps)] : -1));
                twin(SP_OP_Sparsify, attrs, 1, &x, 1, &out, sp_quick_Sparsify, true);
                sp_free(cx, v);
            }
}

/* Another axis than the last is the reference's. */
static void top_k_of_columns(void **state)
{
    (void)state;
    int64_t k = 2;
    sparta_tensor in[2] = {random_floats(DIMS(5, 4), 3),
                           sparta_tensor_view(SPARTA_I64, 1, (int64_t[]){1}, &k)};
    const sparta_tensor out[] = {F32(NULL, 2, 4), I64(NULL, 2, 4)};
    twin(SP_OP_TopK, ATTRS(INT("axis", 0)), 2, in, 2, out, sp_quick_TopK, false);
    sp_free(cx, in[0].data);
}

/* ------------------------------------------------------------------ GatherElements */
static void gather_elements(void **state)
{
    (void)state;
    for (int axis = -3; axis < 3; axis++)
        for (int way = 0; way < 4; way++) {
            const int64_t x_dim[] = {7, 9, 37};
            int64_t dim[] = {5, 8, 20}, at = axis < 0 ? axis + 3 : axis;
            if (way & 1) dim[at] = 70; /* more than there are */
            sparta_tensor in[2] = {random_floats(3, x_dim, 5)};
            ok(sp_tensor_alloc(cx, SPARTA_I64, 3, dim, &in[1]));
            int64_t *index = in[1].data;
            for (int64_t i = 0; i < sparta_tensor_elements(&in[1]); i++)
                index[i] = (i * 29 + 3) % x_dim[at] - (way & 2 ? x_dim[at] : 0);
            const sparta_tensor out = sparta_tensor_view(SPARTA_F32, 3, dim, NULL);
            twin(SP_OP_GatherElements, ATTRS(INT("axis", axis)), 2, in, 1, &out, sp_quick_GatherElements,
                 true);
            sp_free(cx, in[0].data);
            sp_free(cx, in[1].data);
        }
}

/* An index outside is an error that says which, on the first and on the last place. */
static void gather_outside(void **state)
{
    (void)state;
    float x[12] = {0}, y[12];
    for (int i = 0; i < 12; i += 11)
        for (int sign = 0; sign < 2; sign++) {
            int64_t index[12] = {0};
            index[i] = sign ? -4 : 3;
            const sparta_tensor in[] = {F32(x, 3, 4), I64(index, 3, 4)}, out = F32(y, 3, 4);
            fails_saying(SPARTA_E_RANGE, sign ? "index -4" : "index 3",
                         sp_builtin_quick(cx, SP_OP_GatherElements, &(sp_op_args){&none, 2, 1, in, &out}));
        }
}

/* ------------------------------------------------------------------ normalisations */
static void norms(void **state)
{
    (void)state;
    static const int64_t sizes[][4] = {
        {1, 1, 1, 1}, {2, 6, 5, 7}, {1, 12, 1, 3}, {3, 4, 16, 16}, {1, 64, 33, 31}};
    for (size_t i = 0; i < SP_COUNT(sizes); i++)
        for (int way = 0; way < 4; way++) {
            const int64_t c = sizes[i][1];
            sparta_tensor in[3] = {random_floats(4, sizes[i], 6), random_floats(1, &c, 7),
                                   random_floats(1, &c, 8)};
            if (way & 2) ((float *)in[0].data)[0] = way & 1 ? NAN : INFINITY;
            const sparta_tensor out = sparta_tensor_view(SPARTA_F32, 4, sizes[i], NULL);
            if (way & 1)
                twin(SP_OP_InstanceNormalization, ATTRS(FLOAT("epsilon", 1e-3f)), 3, in, 1, &out,
                     sp_quick_InstanceNormalization, true);
            else
                twin(SP_OP_GroupNormalization, ATTRS(INT("num_groups", c % 2 ? 1 : c / 2)), 3, in, 1, &out,
                     sp_quick_GroupNormalization, true);
            for (int k = 0; k < 3; k++) sp_free(cx, in[k].data);
        }
}

/* A mean that is large against what numbers differ by. */
static void norms_far_from_zero(void **state)
{
    (void)state;
    const int64_t dim[] = {1, 4, 40, 50}, c = 4;
    sparta_tensor in[3] = {random_floats(4, dim, 6), random_floats(1, &c, 7), random_floats(1, &c, 8)};
    float *x = in[0].data;
    for (int64_t i = 0; i < sparta_tensor_elements(&in[0]); i++) x[i] = 1000 + roundf(x[i] * 64) / 64;
    const sparta_tensor out = sparta_tensor_view(SPARTA_F32, 4, dim, NULL);
    twin(SP_OP_GroupNormalization, ATTRS(INT("num_groups", 2)), 3, in, 1, &out, sp_quick_GroupNormalization,
         true);
    for (int k = 0; k < 3; k++) sp_free(cx, in[k].data);
}

/* ------------------------------------------------------------------ bools */
static sparta_tensor random_bools(int rank, const int64_t *dim, uint64_t seed)
{
    sparta_tensor t;
    sp_rng rng = sp_rng_seed(seed);
    ok(sp_tensor_alloc(cx, SPARTA_BOOL, rank, dim, &t));
    for (int64_t i = 0; i < sparta_tensor_elements(&t); i++) /* any byte but 0 is true */
        ((uint8_t *)t.data)[i] = sp_rng_next(&rng) % 2 ? (uint8_t)(sp_rng_next(&rng) % 255 + 1) : 0;
    return t;
}

static void logic(void **state)
{
    (void)state;
    static const struct {
        sp_op_id op;
        sp_quick_fn fn;
    } ops[] = {{SP_OP_And, sp_quick_And}, {SP_OP_Or, sp_quick_Or}, {SP_OP_Xor, sp_quick_Xor}};
    static const int64_t one[3] = {1, 1, 1}, column[3] = {1, 3, 1}, image[3] = {2, 3, 5};
    for (size_t i = 0; i < SP_COUNT(shapes); i++) {
        const sparta_tensor out = sparta_tensor_view(SPARTA_BOOL, 3, shapes[i], NULL);
        sparta_tensor a = random_bools(3, shapes[i], i + 1), b = random_bools(3, shapes[i], i + 50),
                      c = random_bools(3, one, i);
        for (size_t k = 0; k < SP_COUNT(ops); k++) {
            twin(ops[k].op, ATTRS(), 2, (sparta_tensor[]){a, b}, 1, &out, ops[k].fn, true);
            twin(ops[k].op, ATTRS(), 2, (sparta_tensor[]){a, c}, 1, &out, ops[k].fn, true);
            twin(ops[k].op, ATTRS(), 2, (sparta_tensor[]){c, b}, 1, &out, ops[k].fn, true);
        }
        twin(SP_OP_Not, ATTRS(), 1, &a, 1, &out, sp_quick_Not, true);
        sp_free(cx, a.data), sp_free(cx, b.data), sp_free(cx, c.data);
    }
    /* What repeats along some axes is left to others. */
    sparta_tensor a = random_bools(3, image, 1), b = random_bools(3, column, 2);
    const sparta_tensor out = sparta_tensor_view(SPARTA_BOOL, 3, image, NULL);
    twin(SP_OP_And, ATTRS(), 2, (sparta_tensor[]){a, b}, 1, &out, sp_quick_And, false);
    sp_free(cx, a.data), sp_free(cx, b.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cumsum),
        cmocka_unit_test(cumsum_integers),
        cmocka_unit_test(cumsum_is_as_good_at_the_end),
        cmocka_unit_test(extremes),
        cmocka_unit_test(top_k),
        cmocka_unit_test(top_k_of_columns),
        cmocka_unit_test(sparsify),
        cmocka_unit_test(gather_elements),
        cmocka_unit_test(gather_outside),
        cmocka_unit_test(norms),
        cmocka_unit_test(norms_far_from_zero),
        cmocka_unit_test(logic),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
