/* Packed matrices as the arrays of SciPy and PyTorch, and those arrays as packed matrices: views, or a reason. */
#include "bed.h"
#include "store/layouts.h"

#define OK(call) assert_int_equal((call), SPARTA_OK)
enum { ROWS = 12, COLS = 18 };
static float dense[ROWS][COLS];

static int fill_and_set_up(void **state)
{
    sp_rng r = sp_rng_seed(3);
    for (int i = 0; i < ROWS * COLS; i++)
        if (sp_rng_uniform(&r) < 0.3) dense[i / COLS][i % COLS] = (float)(1 + i);
    return set_up(state);
}

static sp_packed packed(const char *text)
{
    sp_format f;
    sp_packed p;
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){ROWS, COLS}, dense);
    OK(sp_format_parse(cx, text, &f));
    OK(sp_format_pack(cx, &f, &t, NULL, &p));
    return p;
}

static int64_t at(const sparta_tensor *t, int64_t i)
{
    return sp_element_get_int(t->dtype, t->data, i * t->stride[t->rank - 1]);
}

/* The matrix, read from the layout's arrays as SciPy's and PyTorch's documents say they are. */
static void read_layout(const sp_layout *l, float out[ROWS][COLS])
{
    memset(out, 0, sizeof dense);
    const float *v = l->values.data;
    bool turned = l->kind == SP_LAYOUT_CSC || l->kind == SP_LAYOUT_BSC;
    int64_t b = l->block[0], c = l->block[1], lines = turned ? COLS / c : ROWS / b;
    if (l->kind == SP_LAYOUT_COO) {
        for (int64_t i = 0; i < l->row.dim[0]; i++) out[at(&l->row, i)][at(&l->col, i)] += v[i];
        return;
    }
    assert_int_equal(l->offsets.dim[0], lines + 1);
    for (int64_t line = 0; line < lines; line++)
        for (int64_t e = at(&l->offsets, line); e < at(&l->offsets, line + 1); e++)
            for (int64_t k = 0; k < b * c; k++) {
                int64_t other = at(&l->indices, e), row = turned ? other : line, col = turned ? line : other;
                out[row * b + k / c][col * c + k % c] += v[e * b * c + k];
            }
}

static void assert_unpacks(const sp_packed *p)
{
    static float back[ROWS][COLS];
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){ROWS, COLS}, back);
    OK(sp_format_unpack(cx, p, &t));
    assert_memory_equal(back, dense, sizeof dense);
}

static void there_and_back(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        sp_layout_kind kind;
        bool scipy, torch;
    } row[] = {
        {"csr", SP_LAYOUT_CSR, true, true},
        {"csr, pos=i64, crd=i64", SP_LAYOUT_CSR, true, true},
        {"csc", SP_LAYOUT_CSC, true, true},
        {"bsr(3,2)", SP_LAYOUT_BSR, true, true},
        {"bsc(3,2), pos=i64, crd=i64", SP_LAYOUT_BSC, false, true},
        {"coo", SP_LAYOUT_COO, true, false},
        {"coo, pos=i64, crd=i64", SP_LAYOUT_COO, true, false},
        {"(i,j)->(i:compressed(nonunique), j:singleton(aos)), crd=i64, pos=i64", SP_LAYOUT_COO, true, true},
        {"(i,j)->(j:compressed(nonunique), i:singleton(soa))", SP_LAYOUT_COO, true, false},
        /* none of them, or not as a view */
        {"csr, crd=u16", SP_LAYOUT_CSR, false, false},
        {"csr, crd=i64", SP_LAYOUT_CSR, false, false},
        {"bsr(5,2)", SP_LAYOUT_BSR, false, false},
        {"(i,j)->(i/3:dense, j/2:compressed, j%2:dense, i%3:dense)", SP_LAYOUT_BSR, false, false},
        {"dcsr", SP_LAYOUT_CSR, false, false},
        {"dense", SP_LAYOUT_CSR, false, false},
        {"ell", SP_LAYOUT_CSR, false, false},
        {"(i,j)->(i/3:dense, j:compressed, i%3:dense)", SP_LAYOUT_CSR, false, false},
        {"sum{rownnz<=4 -> csr; rest -> csr}", SP_LAYOUT_CSR, false, false}};
    for (size_t i = 0; i < SP_COUNT(row); i++) {
        sp_packed p = packed(row[i].text), back;
        for (int who = 0; who < 2; who++) {
            sp_layout l;
            int64_t pos[2];
            static float out[ROWS][COLS];
            sparta_status status = sp_layout_of_packed(cx, &p, (sp_layout_for)who, &l);
            assert_int_equal(status, (who ? row[i].torch : row[i].scipy) ? SPARTA_OK : SPARTA_E_UNSUPPORTED);
            if (status) {
                assert_non_null(strstr(sparta_message(cx), "convert it to"));
                continue;
            }
            assert_int_equal(l.kind, row[i].kind);
            assert_ptr_equal(l.values.data, p.values.data); /* no copy */
            read_layout(&l, out);
            assert_memory_equal(out, dense, sizeof dense);
            if (i == 8) l.unordered = true; /* by columns: rows do not ascend */
            OK(sp_packed_of_layout(cx, &l, pos, &back));
            assert_ptr_equal(back.values.data, p.values.data);
            assert_unpacks(&back);
        }
        sp_packed_free(cx, &p);
    }
}

/* PyTorch's coo: one (2, n) array, row-major. */
static void torch_coo(void **state)
{
    (void)state;
    int64_t index[2][3] = {{0, 0, 2}, {1, 3, 0}}, pos[2];
    float value[3] = {5, 6, 7}, out[3][4];
    sp_packed p;
    sp_layout l = {.kind = SP_LAYOUT_COO,
                   .dim = {3, 4},
                   .indices = sparta_tensor_view(SPARTA_I64, 2, (int64_t[]){2, 3}, index),
                   .values = sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){3}, value)};
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){3, 4}, out);
    OK(sp_packed_of_layout(cx, &l, pos, &p));
    OK(sp_format_unpack(cx, &p, &t));
    assert_true(out[0][1] == 5 && out[0][3] == 6 && out[2][0] == 7 && out[1][1] == 0);
    index[0][0] = 3; /* outside, and out of order */
    assert_int_equal(sp_packed_of_layout(cx, &l, pos, &p), SPARTA_E_FORMAT);
    index[0][0] = 2, index[0][2] = 0, index[1][2] = 3; /* (2,1) (0,3) (0,3) */
    assert_int_equal(sp_packed_of_layout(cx, &l, pos, &p), SPARTA_E_FORMAT);
    l.unordered = true; /* uncoalesced: adds up */
    OK(sp_packed_of_layout(cx, &l, pos, &p));
    OK(sp_format_unpack(cx, &p, &t));
    assert_true(out[2][1] == 5 && out[0][3] == 13);
}

/* The bools of a pattern in blocks say which elements exist; packages keep the indices of aos as one row. */
static void patterns_and_rows(void **state)
{
    (void)state;
    int64_t index[2][3] = {{0, 0, 2}, {1, 3, 0}}, pos[2];
    sp_layout l = {.kind = SP_LAYOUT_COO,
                   .dim = {3, 4},
                   .indices = sparta_tensor_view(SPARTA_I64, 2, (int64_t[]){2, 3}, index)};
    sp_packed p, packed;
    OK(sp_packed_of_layout(cx, &l, pos, &p));
    sp_format f;
    OK(sp_format_parse(cx, "bsr(3,2)", &f));
    OK(sp_format_convert(cx, &p, &f, NULL, &packed));
    OK(sp_layout_of_packed(cx, &packed, SP_LAYOUT_TORCH, &l));
    assert_true(packed.pattern && l.values.rank == 3 && l.values.dtype == SPARTA_BOOL &&
                l.values.data == packed.values.data);
    sp_packed_free(cx, &packed);
    OK(sp_format_parse(cx, "(i,j)->(i:compressed(nonunique), j:singleton(aos)), crd=i64, pos=i64", &f));
    OK(sp_format_convert(cx, &p, &f, NULL, &packed));
    packed.crd[0] = sparta_tensor_view(SPARTA_I64, 1, (int64_t[]){6}, packed.crd[0].data);
    OK(sp_packed_verify(cx, &packed));
    OK(sp_layout_of_packed(cx, &packed, SP_LAYOUT_TORCH, &l));
    assert_true(l.indices.dim[1] == 3 && l.row.dim[0] == 3 && l.col.dim[0] == 3);
    sp_packed_free(cx, &packed);
}

/* Arrays that lie. */
static void hostile(void **state)
{
    (void)state;
    int32_t offsets[4] = {0, 2, 2, 3}, indices[3] = {0, 3, 1};
    float value[6] = {1, 2, 3, 4, 5, 6};
    int64_t pos[2];
    sp_packed p = {.rank = 77};
    const sp_layout good = {.kind = SP_LAYOUT_CSR,
                            .dim = {3, 4},
                            .offsets = sparta_tensor_view(SPARTA_I32, 1, (int64_t[]){4}, offsets),
                            .indices = sparta_tensor_view(SPARTA_I32, 1, (int64_t[]){3}, indices),
                            .values = sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){3}, value)};
    sp_layout l = good;
    OK(sp_packed_of_layout(cx, &l, pos, &p));
    p.rank = 77;
#define REFUSED(...)                                                                                         \
    do {                                                                                                     \
        l = good;                                                                                            \
        __VA_ARGS__;                                                                                         \
        assert_int_not_equal(sp_packed_of_layout(cx, &l, pos, &p), SPARTA_OK);                               \
        assert_int_equal(p.rank, 77);                                                                        \
    } while (0)
    REFUSED(l.dim[0] = -1);
    REFUSED(l.dim[0] = 4);
    REFUSED(l.dim[1] = 3); /* a column outside */
    REFUSED(l.offsets.dim[0] = 3);
    REFUSED(l.offsets.rank = 2);
    REFUSED(l.offsets.dtype = SPARTA_F32);
    REFUSED(l.indices.dtype = SPARTA_U8);
    REFUSED(l.indices.dim[0] = 2);
    REFUSED(l.indices.stride[0] = 2);
    REFUSED(l.values.dim[0] = 2);
    REFUSED(l.values.stride[0] = 2);
    REFUSED(l.values.rank = 3);
    REFUSED(l.kind = SP_LAYOUT_BSR; l.block[0] = 0; l.block[1] = 2);
    REFUSED(l.kind = SP_LAYOUT_BSR; l.block[0] = l.block[1] = INT64_MAX);
    REFUSED(l.kind = SP_LAYOUT_COO);
    offsets[1] = 9;
    REFUSED((void)0);
    offsets[1] = 2, indices[1] = 0; /* twice in a row */
    REFUSED((void)0);
    l = good, l.unordered = true;
    OK(sp_packed_of_layout(cx, &l, pos, &p));
    float out[3][4];
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){3, 4}, out);
    OK(sp_format_unpack(cx, &p, &t));
    assert_true(out[0][0] == 3 && out[2][1] == 3);
    /* no values: a pattern */
    indices[1] = 3, l = good, l.values = (sparta_tensor){0};
    OK(sp_packed_of_layout(cx, &l, pos, &p));
    assert_true(p.pattern);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(there_and_back), cmocka_unit_test(torch_coo),
                                       cmocka_unit_test(patterns_and_rows), cmocka_unit_test(hostile)};
    return cmocka_run_group_tests(tests, fill_and_set_up, tear_down);
}
