/* Products of two activations (builtin/quick.h) against their references: odd sizes, strides, batches, NaN and Inf, by one thread and by three
 * (sp_pool_create). */
#include "builtin_quick_bed.h"

static void matmul(sparta_tensor a, sparta_tensor b, sparta_tensor out, bool takes)
{
    twin(SP_OP_MatMul, &none, 2, (sparta_tensor[]){a, b}, 1, &out, sp_quick_MatMul, takes);
}

/* a is (m, k), b (k, n), each as it is or a view of its transpose. */
static sparta_tensor matrix(int64_t rows, int64_t cols, bool turned, uint64_t seed)
{
    if (!turned) return random_floats(DIMS(rows, cols), seed);
    sparta_tensor t = random_floats(DIMS(cols, rows), seed);
    t.dim[0] = rows, t.dim[1] = cols;
    t.stride[0] = 1, t.stride[1] = rows;
    return t;
}

/* Every edge of tiles, panels and depths. */
static const int64_t dims[][3] = {{1, 1, 1},     {1, 1, 200},    {1, 40, 7},     {1, 257, 33}, {2, 19, 130},
                                  {5, 300, 1},   {13, 17, 129},  {12, 32, 128},  {25, 33, 3},  {49, 49, 32},
                                  {31, 5, 257},  {64, 129, 300}, {481, 130, 20}, {97, 1, 64},  {7, 16, 16},
                                  {11, 31, 127}, {3, 8, 5},      {24, 9, 64}};

/* In all ways to lie. */
static void sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(dims); i++)
        for (int way = 0; way < 8; way++) {
            const int64_t m = dims[i][0], n = dims[i][1], k = dims[i][2];
            sparta_tensor a = matrix(m, k, way & 1, 1), b = matrix(k, n, way & 2, 2);
            sparta_tensor out = sparta_tensor_view(SPARTA_F32, DIMS(m, n), NULL);
            if (way & 4)
                out.stride[0] = 1, out.stride[1] = m + 3; /* columns lie together, with gaps between */
            matmul(a, b, out, true);
            sp_free(cx, a.data);
            sp_free(cx, b.data);
        }
}

/* Gemm as a product that is added to what is there. */
static sparta_status added(sparta_ctx *with, const sp_op_args *args, bool *done)
{
    const sparta_tensor *a = &args->in[0], *b = &args->in[1], *c = &args->in[2], *y = &args->out[0];
    SP_TRY(sp_tensor_copy(with, c, y));
    return sp_quick_products(with,
                             &(sp_products){.m = y->dim[0],
                                            .n = y->dim[1],
                                            .k = a->dim[1],
                                            .a = a->data,
                                            .a_row = a->stride[0],
                                            .a_col = a->stride[1],
                                            .b = b->data,
                                            .b_row = b->stride[0],
                                            .b_col = b->stride[1],
                                            .c = y->data,
                                            .c_row = y->stride[0],
                                            .c_col = y->stride[1],
                                            .add = true},
                             done);
}

static void adds(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(dims); i++)
        for (int way = 0; way < 4; way++) {
            const int64_t m = dims[i][0], n = dims[i][1], k = way & 1 && !i ? 0 : dims[i][2];
            sparta_tensor in[3] = {matrix(m, k, way & 1, 14), matrix(k, n, way & 2, 15),
                                   matrix(m, n, false, 16)};
            const sparta_tensor out = sparta_tensor_view(SPARTA_F32, DIMS(m, n), NULL);
            twin(SP_OP_Gemm, &none, 3, in, 1, &out, added, true);
            for (int t = 0; t < 3; t++) sp_free(cx, in[t].data);
        }
}

/* Leading dims that broadcast on either side, in the middle, and ranks that differ. */
static void batches(void **state)
{
    (void)state;
    static const struct {
        int a_rank, b_rank;
        int64_t a[4], b[4], out[4];
    } rows[] = {{4, 4, {2, 3, 9, 17}, {2, 3, 17, 35}, {2, 3, 9, 35}},
                {4, 4, {2, 1, 9, 17}, {1, 3, 17, 5}, {2, 3, 9, 5}},
                {4, 2, {2, 3, 9, 17}, {17, 35}, {2, 3, 9, 35}},
                {2, 4, {9, 17}, {2, 3, 17, 35}, {2, 3, 9, 35}},
                {3, 4, {3, 9, 17}, {2, 1, 17, 4}, {2, 3, 9, 4}},
                {3, 3, {300, 20, 16}, {300, 16, 20}, {300, 20, 20}}};
    for (size_t i = 0; i < SP_COUNT(rows); i++) {
        const int rank = SP_MAX(rows[i].a_rank, rows[i].b_rank);
        sparta_tensor a = random_floats(rows[i].a_rank, rows[i].a, 3),
                      b = random_floats(rows[i].b_rank, rows[i].b, 4);
        matmul(a, b, sparta_tensor_view(SPARTA_F32, rank, rows[i].out, NULL), true);
        sp_free(cx, a.data);
        sp_free(cx, b.data);
    }
}

/* (batch, tokens, heads, features) seen as (batch, heads, tokens, features), as attention does without a transpose. */
static void heads(void **state)
{
    (void)state;
    sparta_tensor q = random_floats(DIMS(2, 21, 3, 16), 5), k = random_floats(DIMS(2, 19, 3, 16), 6);
    sparta_tensor a = sparta_tensor_view(SPARTA_F32, DIMS(2, 3, 21, 16), q.data),
                  b = sparta_tensor_view(SPARTA_F32, DIMS(2, 3, 16, 19), k.data);
    for (int i = 0; i < 4; i++) {
        static const int to_a[] = {0, 2, 1, 3}, to_b[] = {0, 2, 3, 1};
        a.stride[i] = q.stride[to_a[i]];
        b.stride[i] = k.stride[to_b[i]];
    }
    matmul(a, b, sparta_tensor_view(SPARTA_F32, DIMS(2, 3, 21, 19), NULL), true);
    sp_free(cx, q.data);
    sp_free(cx, k.data);
}

/* NaN, Inf and 0 x Inf stay where they are, also beside the edges of a panel; -0.0 is a number. */
static void special(void **state)
{
    (void)state;
    for (int turned = 0; turned < 2; turned++) {
        sparta_tensor a = matrix(14, 40, false, 7), b = matrix(40, 37, turned, 8);
        float *x = a.data, *y = b.data;
        x[0] = NAN;
        x[2 * 40 + 39] = INFINITY;
        x[5 * 40 + 3] = -INFINITY;
        x[6 * 40 + 1] = -0.0f;
        y[11 * b.stride[0] + 36 * b.stride[1]] = INFINITY;
        y[12 * b.stride[0] + 35 * b.stride[1]] = NAN;
        y[39 * b.stride[0] + 4 * b.stride[1]] = 0;
        matmul(a, b, sparta_tensor_view(SPARTA_F32, DIMS(14, 37), NULL), true);
        sp_free(cx, a.data);
        sp_free(cx, b.data);
    }
}

/* A sum over nothing is 0; nothing at all is no work; what it does not know is the reference's. */
static void empty_and_others(void **state)
{
    (void)state;
    float none_at_all[1], y[12];
    memset(y, 0xff, sizeof y);
    sparta_tensor a = F32(none_at_all, 3, 0), b = F32(none_at_all, 0, 4), out = F32(y, 3, 4);
    ok(sp_builtin_quick(cx, SP_OP_MatMul, &(sp_op_args){&none, 2, 1, (sparta_tensor[]){a, b}, &out}));
    for (int i = 0; i < 12; i++) assert_true(y[i] == 0);
    a = F32(none_at_all, 0, 3), b = F32(none_at_all, 3, 4), out = F32(none_at_all, 0, 4);
    ok(sp_builtin_quick(cx, SP_OP_MatMul, &(sp_op_args){&none, 2, 1, (sparta_tensor[]){a, b}, &out}));
    int64_t i[4] = {1, 2, 3, 4}, j[4];
    const sparta_tensor ints = I64(i, 2, 2);
    out = I64(j, 2, 2);
    ok(sp_builtin_quick(cx, SP_OP_MatMul, &(sp_op_args){&none, 2, 1, (sparta_tensor[]){ints, ints}, &out}));
    assert_int_equal(j[0], 7);
    assert_int_equal(j[3], 22);
}

static void gemm(void **state)
{
    (void)state;
    static const int64_t of_c[][2] = {{13, 35}, {1, 35}, {13, 1}, {1, 1}};
    for (int way = 0; way < 4; way++)
        for (int c = 0; c < 5; c++) {
            sparta_tensor in[3] = {matrix(way & 1 ? 21 : 13, way & 1 ? 13 : 21, false, 9),
                                   matrix(way & 2 ? 35 : 21, way & 2 ? 21 : 35, false, 10)};
            if (c < 4) in[2] = random_floats(2, of_c[c], 11);
            const sparta_tensor out = sparta_tensor_view(SPARTA_F32, DIMS(13, 35), NULL);
            twin(SP_OP_Gemm,
                 ATTRS(INT("transA", way & 1), INT("transB", way >> 1), FLOAT("alpha", c ? .5f : 1),
                       FLOAT("beta", 2)),
                 c < 4 ? 3 : 2, in, 1, &out, sp_quick_Gemm, true);
            for (int i = 0; i < 3; i++) sp_free(cx, in[i].data);
        }
}

static void einsum(void **state)
{
    (void)state;
    static const struct {
        const char *equation;
        int a_rank, b_rank, rank;
        int64_t a[4], b[4], out[4];
        bool takes;
    } rows[] = {
        {"bhid,bhjd->bhij", 4, 4, 4, {2, 3, 9, 17}, {2, 3, 8, 17}, {2, 3, 9, 8}, true},
        {"bqhd,bkhd->bhqk", 4, 4, 4, {2, 9, 3, 17}, {2, 8, 3, 17}, {2, 3, 9, 8}, true},
        {"bhqk,bkhd->bqhd", 4, 4, 4, {2, 3, 9, 8}, {2, 8, 3, 17}, {2, 9, 3, 17}, true},
        {"abc,cd->abd", 3, 2, 3, {5, 6, 7}, {7, 9}, {5, 6, 9}, true},
        {"abcd,cde->abe", 4, 3, 3, {2, 3, 4, 5}, {4, 5, 6}, {2, 3, 6}, true}, /* a depth of two that is one */
        {"abcd,dce->abe", 4, 3, 3, {2, 3, 4, 5}, {5, 4, 6}, {2, 3, 6}, false}, /* and of two that are not */
        {"i,j->ij", 1, 1, 2, {5}, {6}, {5, 6}, true},
        {"ij,ij->", 2, 2, 0, {5, 6}, {5, 6}, {0}, true},
        {"ij,ij->ji", 2, 2, 2, {5, 6}, {5, 6}, {6, 5}, true},
        {"...ij,...jk->...ik", 4, 3, 4, {2, 1, 5, 6}, {3, 6, 7}, {2, 3, 5, 7}, true},
        {"ii,ij->ij", 2, 2, 2, {5, 5}, {5, 4}, {5, 4}, false}, /* a diagonal */
        {"ij,k->ik", 2, 1, 2, {5, 6}, {3}, {5, 3}, false},     /* a sum over one operand */
        {"ij,jk->ki", 2, 2, 2, {5, 6}, {6, 7}, {7, 5}, true},
        {"bij,bjk->bik", 3, 3, 3, {1, 1, 6}, {1, 6, 1}, {1, 1, 1}, true}};
    for (size_t i = 0; i < SP_COUNT(rows); i++) {
        sparta_tensor in[2] = {random_floats(rows[i].a_rank, rows[i].a, 12),
                               random_floats(rows[i].b_rank, rows[i].b, 13)};
        const sparta_tensor out = sparta_tensor_view(SPARTA_F32, rows[i].rank, rows[i].out, NULL);
        twin(SP_OP_Einsum, ATTRS(STRING("equation", rows[i].equation)), 2, in, 1, &out, sp_quick_Einsum,
             rows[i].takes);
        sp_free(cx, in[0].data);
        sp_free(cx, in[1].data);
    }
}

/* Sizes that disagree are the reference's to report. */
static void einsum_disagrees(void **state)
{
    (void)state;
    float x[12] = {0}, y[12];
    const sparta_tensor in[2] = {F32(x, 2, 3), F32(x, 1, 4)}, out = F32(y, 2, 4);
    fails_saying(SPARTA_E_SHAPE, "was 3 before",
                 sp_builtin_quick(cx, SP_OP_Einsum,
                                  &(sp_op_args){ATTRS(STRING("equation", "ij,jk->ik")), 2, 1, in, &out}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes), cmocka_unit_test(adds),    cmocka_unit_test(batches),
        cmocka_unit_test(heads), cmocka_unit_test(special), cmocka_unit_test(empty_and_others),
        cmocka_unit_test(gemm),  cmocka_unit_test(einsum),  cmocka_unit_test(einsum_disagrees),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
