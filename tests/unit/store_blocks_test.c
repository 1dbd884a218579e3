/* bsr whose blocks are nonordered: they come as their first entries do, and what reads them gives the same matrix. */
#include "bed.h"
#include "store/convert.h"

static sp_pool *pool[4]; /* by threads; 0 and 1: none */

static int set_up_pools(void **state)
{
    if (set_up(state)) return -1;
    for (int t = 2; t <= 3; t++) pool[t] = sp_pool_create(cx, t);
    return !pool[2] || !pool[3];
}

static int tear_down_pools(void **state)
{
    for (int t = 2; t <= 3; t++) sp_pool_free(pool[t]);
    return tear_down(state);
}

static sp_format format_of(const char *text)
{
    sp_format f;
    if (sp_format_parse(cx, text, &f)) fail_msg("%s: %s", text, sparta_message(cx));
    return f;
}

typedef struct {
    int64_t rows, cols;
    double density;
    bool pattern;
    sparta_dtype dtype;
} spec;

/* A random matrix as csr. */
static sp_packed matrix_of(const spec *s, uint64_t seed)
{
    sp_rng r = sp_rng_seed(seed);
    sp_packed p = {.format = format_of("csr"),
                   .dtype = s->pattern ? SPARTA_BOOL : s->dtype,
                   .pattern = s->pattern,
                   .rank = 2,
                   .dim = {s->rows, s->cols}};
    int64_t n = 0, most = s->rows * s->cols;
    int32_t *pos = sp_zalloc(cx, (size_t)(s->rows + 1) * 4), *col = sp_alloc(cx, (size_t)most * 4);
    char *value = sp_zalloc(cx, (size_t)most * sparta_dtype_size(s->dtype));
    for (int64_t i = 0; i < s->rows; i++, pos[i] = (int32_t)n)
        for (int64_t j = 0; j < s->cols; j++) {
            if (sp_rng_uniform(&r) >= s->density) continue;
            sp_element_set(s->dtype, value, n, (double)(1 + sp_rng_next(&r) % 100));
            col[n++] = (int32_t)j;
        }
    p.pos[1] = sparta_tensor_view(SPARTA_I32, 1, &(int64_t){s->rows + 1}, pos);
    p.crd[1] = sparta_tensor_view(SPARTA_I32, 1, &n, col);
    if (s->pattern)
        sp_free(cx, value);
    else
        p.values = sparta_tensor_view(s->dtype, 1, &n, value);
    return p;
}

static void same_array(const sparta_tensor *a, const sparta_tensor *b, const char *where)
{
    if (!a->data != !b->data || a->dtype != b->dtype || (a->data && a->dim[0] != b->dim[0]))
        fail_msg("%s: arrays of different lengths", where);
    if (a->data && memcmp(a->data, b->data, (size_t)a->dim[0] * sparta_dtype_size(a->dtype)))
        fail_msg("%s: arrays differ", where);
}

/* Do the blocks of each row of blocks come in the order in which `lines` (csr, or csc) first has them? */
static void check_order(const sp_packed *p, const sp_packed *lines, int64_t a, int64_t b)
{
    const int32_t *pos = lines->pos[1].data, *col = lines->crd[1].data;
    int64_t n = 0, rows = lines->pos[1].dim[0] - 1;
    for (int64_t unit = 0; unit * a < rows; unit++) {
        int64_t first = n;
        for (int64_t i = pos[unit * a]; i < pos[SP_MIN(rows, (unit + 1) * a)]; i++) {
            int64_t q = first;
            while (q < n && sp_index_get(p->crd[1].dtype, p->crd[1].data, q) != col[i] / b) q++;
            if (q < n) continue;
            assert_true(n < p->crd[1].dim[0]);
            assert_int_equal(sp_index_get(p->crd[1].dtype, p->crd[1].data, n++), col[i] / b);
        }
        assert_int_equal(sp_index_get(p->pos[1].dtype, p->pos[1].data, unit + 1), n);
    }
    assert_int_equal(n, p->crd[1].dim[0]);
}

/* Fast to `to`: taken, valid, in order; what the generic path writes for it, read again, is the same matrix; as is it. */
static void check_come(const sp_packed *entries, const char *source, const char *to, int threads)
{
    sp_format f = format_of(source), t = format_of(to), csr = format_of("csr"), csc = format_of("csc");
    const bool turned = t.level[0].dim == 1;
    sp_packed from, out, oracle, lines, back[2];
    bool done = false;
    assert_int_equal(sp_convert_generic(cx, entries, &f, &from), SPARTA_OK);
    assert_int_equal(sp_convert_fast(cx, &from, &t, pool[threads], &done, &out), SPARTA_OK);
    if (!done) fail_msg("%s -> %s: not taken", source, to);
    assert_int_equal(sp_packed_verify(cx, &out), SPARTA_OK);
    assert_int_equal(sp_convert_generic(cx, &from, turned ? &csc : &csr, &lines), SPARTA_OK);
    check_order(&out, &lines, t.level[0].c, t.level[1].c);
    assert_int_equal(sp_convert_generic(cx, &from, &t, &oracle), SPARTA_OK);
    same_array(&out.pos[1], &oracle.pos[1], to);
    assert_int_equal(sp_convert_fast(cx, &out, &f, pool[threads], &done, &back[0]), SPARTA_OK);
    if (!done) fail_msg("%s -> %s: not read by rows", to, source);
    sp_packed_free(cx, &back[0]);
    for (int k = 0; k < 2; k++)
        assert_int_equal(sp_store_convert(cx, k ? &oracle : &out, &csr, pool[threads], &back[k]), SPARTA_OK);
    same_array(&back[0].pos[1], &back[1].pos[1], to);
    same_array(&back[0].crd[1], &back[1].crd[1], to);
    same_array(&back[0].values, &back[1].values, to);
    sp_packed *all[] = {&from, &out, &oracle, &lines, &back[0], &back[1]};
    for (size_t i = 0; i < SP_COUNT(all); i++) sp_packed_free(cx, all[i]);
}

static void test_blocks_come(void **state)
{
    (void)state;
    static const char *const source[] = {"csr", "coo", "dense", "csc", "csr, crd=u16", "bsr(2,2)"};
    static const char *const to[] = {
        "(i,j)->(i/4:dense, j/4:compressed(nonordered), i%4:dense, j%4:dense)",
        "(i,j)->(i/5:dense, j/3:compressed(nonordered), j%3:dense, i%5:dense), crd=u16, pos=i64",
        "(i,j)->(j/2:dense, i/8:compressed(nonunique,nonordered), i%8:dense, j%2:dense)"};
    static const spec specs[] = {{37, 50, 0.2, false, SPARTA_F32},   {64, 64, 1, false, SPARTA_I8},
                                 {70, 900, 0.01, false, SPARTA_F64}, {24, 5000, 0.002, false, SPARTA_F16},
                                 {40, 30, 0.1, true, SPARTA_F32},    {12, 8, 0, false, SPARTA_F32}};
    for (size_t k = 0; k < SP_COUNT(specs); k++) {
        sp_packed entries = matrix_of(&specs[k], k);
        for (size_t a = 0; a < SP_COUNT(source); a++)
            for (size_t b = 0; b < SP_COUNT(to); b++)
                check_come(&entries, source[a], to[b], 1 + (int)((k + a + b) % 3));
        sp_packed_free(cx, &entries);
    }
}

/* A source that is not as it says is left to the generic path, here as elsewhere. */
static void test_blocks_come_damaged(void **state)
{
    (void)state;
    static const int32_t wrong[] = {-1, 0, 3, 10, INT32_MAX, INT32_MIN};
    int32_t pos[4] = {0, 2, 4, 5}, col[5] = {3, 9, 1, 9, 0};
    float value[5] = {1, 2, 3, 4, 5};
    sp_packed p = {.format = format_of("csr"), .dtype = SPARTA_F32, .rank = 2, .dim = {3, 10}}, out;
    p.pos[1] = sparta_tensor_view(SPARTA_I32, 1, &(int64_t){4}, pos);
    p.crd[1] = sparta_tensor_view(SPARTA_I32, 1, &(int64_t){5}, col);
    p.values = sparta_tensor_view(SPARTA_F32, 1, &(int64_t){5}, value);
    sp_format t = format_of("(i,j)->(i/2:dense, j/2:compressed(nonordered), i%2:dense, j%2:dense)");
    bool done = false;
    assert_int_equal(sp_convert_fast(cx, &p, &t, NULL, &done, &out), SPARTA_OK);
    assert_true(done);
    assert_memory_equal(out.crd[1].data, ((int32_t[]){1, 4, 0, 0}),
                        16); /* 3 and 9, then 1; the next row: 0 */
    assert_memory_equal(out.values.data, ((float[]){0, 1, 0, 0, 0, 2, 0, 4, 0, 0, 0, 3, 5, 0, 0, 0}), 64);
    sp_packed_free(cx, &out);
    for (size_t i = 0; i < SP_COUNT(wrong); i++) {
        col[1] = wrong[i]; /* after 3 */
        assert_int_equal(sp_convert_fast(cx, &p, &t, NULL, &done, &out), SPARTA_OK);
        assert_false(done);
        assert_int_equal(sp_store_convert(cx, &p, &t, NULL, &out), SPARTA_E_FORMAT);
    }
}

/* Blocks that come twice are added, blocks that are nowhere refused; memory that fails is given back. */
static void test_blocks_read(void **state)
{
    (void)state;
    int32_t pos[2] = {0, 3}, col[3] = {2, 0, 1};
    float value[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, got[12];
    sp_packed p = {.dtype = SPARTA_F32, .rank = 2, .dim = {2, 6}}, out;
    p.format = format_of("(i,j)->(i/2:dense, j/2:compressed(nonordered), i%2:dense, j%2:dense)");
    p.pos[1] = sparta_tensor_view(SPARTA_I32, 1, &(int64_t){2}, pos);
    p.crd[1] = sparta_tensor_view(SPARTA_I32, 1, &(int64_t){3}, col);
    p.values = sparta_tensor_view(SPARTA_F32, 1, &(int64_t){12}, value);
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, p.dim, got);
    sp_format csr = format_of("csr");
    bool done = false;
    assert_int_equal(sp_unpack_fast(cx, &p, &t, NULL, &done), SPARTA_OK);
    assert_true(done);
    assert_memory_equal(got, ((float[]){5, 6, 9, 10, 1, 2, 7, 8, 11, 12, 3, 4}), sizeof got);
    const size_t held = sp_ctx_memory(cx);
    sparta_status status = SPARTA_E_MEMORY;
    for (uint64_t nth = 1; status; nth++) {
        sp_ctx_fail_alloc(cx, nth, false);
        status = sp_convert_fast(cx, &p, &csr, NULL, &done, &out);
        sp_ctx_fail_alloc(cx, 0, false);
        if (!status) break;
        assert_int_equal(status, SPARTA_E_MEMORY);
        assert_int_equal(sp_ctx_memory(cx), held);
    }
    assert_true(done);
    sp_packed_free(cx, &out);
    col[2] = 2; /* twice */
    assert_int_equal(sp_convert_fast(cx, &p, &csr, NULL, &done, &out), SPARTA_OK);
    assert_false(done);
    assert_int_equal(sp_store_unpack(cx, &p, &t), SPARTA_OK);
    assert_true(got[4] == 1 + 9 && got[0] == 5 && got[2] == 0);
    static const int32_t wrong[] = {-1, 3, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < SP_COUNT(wrong); i++) {
        col[2] = wrong[i];
        assert_int_equal(sp_convert_fast(cx, &p, &csr, NULL, &done, &out), SPARTA_OK);
        assert_false(done);
        assert_int_equal(sp_store_convert(cx, &p, &csr, NULL, &out), SPARTA_E_FORMAT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_come),
        cmocka_unit_test(test_blocks_come_damaged),
        cmocka_unit_test(test_blocks_read),
    };
    return cmocka_run_group_tests(tests, set_up_pools, tear_down_pools);
}
