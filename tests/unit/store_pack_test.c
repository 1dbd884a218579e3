/* Storage: pack and unpack against a packer that enumerates coordinates, over formats x shapes x types x
 * layouts. Broken storage and no memory: store_damage_test.c. */
#include "store_formats.h"
#include <math.h>
#include "store/store_inside.h"

/* ------------------------------------------------------------------ the naive packer
 * Walk the tree of coordinates depth first. Each level's arrays come out in order; a compressed level keeps a
 * coordinate when some stored element lies below it, found by looking at all of them. */

#define MOST 40000

typedef struct {
    const sp_format *f;
    const sparta_tensor *t;
    const bool *stored; /* row-major */
    int64_t pos[SP_LEVELS][MOST], crd[SP_LEVELS][MOST];
    int64_t n_pos[SP_LEVELS], n_crd[SP_LEVELS], n_values;
    int64_t source[MOST]; /* element offset of each value, -1: a zero */
    int64_t coord[SP_LEVELS];
} naive;

static int64_t coordinate(const sp_level *l, int64_t i)
{
    return l->map == SP_MAP_ALL ? i : l->map == SP_MAP_DIV ? i / l->c : i % l->c;
}

/* Is there a stored element whose first `levels` coordinates are ours? Its offset, or -1. */
static int64_t below(const naive *v, int levels)
{
    const sparta_tensor *t = v->t;
    int64_t e = 0;
    for (sp_cursor w = sp_cursor_begin(t->rank, t->dim, 1, &t); w.more; sp_cursor_next(&w), e++) {
        bool same = v->stored[e];
        for (int l = 0; same && l < levels; l++)
            same = coordinate(&v->f->level[l], w.index[v->f->level[l].dim]) == v->coord[l];
        if (same) return w.at[0];
    }
    return -1;
}

static void naive_walk(naive *v, int l)
{
    if (l == v->f->n) {
        assert_true(v->n_values < MOST);
        v->source[v->n_values++] = below(v, l);
        return;
    }
    const sp_level *level = &v->f->level[l];
    bool compressed = level->kind == SP_LEVEL_COMPRESSED;
    if (compressed && !v->n_pos[l]) v->pos[l][v->n_pos[l]++] = 0;
    int64_t extent = level->map == SP_MAP_MOD ? level->c : v->t->dim[level->dim];
    if (level->map == SP_MAP_DIV) extent = (extent + level->c - 1) / level->c;
    for (int64_t c = 0; c < extent; c++) {
        v->coord[l] = c;
        if (compressed && below(v, l + 1) < 0) continue;
        if (compressed) v->crd[l][v->n_crd[l]++] = c;
        naive_walk(v, l + 1);
    }
    if (compressed) v->pos[l][v->n_pos[l]++] = v->n_crd[l];
}

static void expect_array(const sparta_tensor *t, const int64_t *want, int64_t n, sparta_dtype width)
{
    assert_int_equal(t->rank, 1);
    assert_int_equal(t->dtype, width);
    assert_int_equal(t->dim[0], n);
    for (int64_t i = 0; i < n; i++) assert_int_equal(sp_element_get_int(width, t->data, i), want[i]);
}

static void expect_naive(const sp_packed *p, const naive *v)
{
    size_t size = sparta_dtype_size(p->dtype);
    static const char zero[8];
    for (int l = 0; l < p->format.n; l++) {
        const sp_level *level = &p->format.level[l];
        if (level->kind == SP_LEVEL_DENSE) {
            assert_null(p->pos[l].data);
            assert_null(p->crd[l].data);
            continue;
        }
        static const int64_t first[1] = {0}; /* a level that has no parents still has pos[0] */
        expect_array(&p->pos[l], v->n_pos[l] ? v->pos[l] : first, SP_MAX(1, v->n_pos[l]), level->pos);
        expect_array(&p->crd[l], v->crd[l], v->n_crd[l], level->crd);
    }
    assert_int_equal(p->values.dim[0], v->n_values);
    for (int64_t i = 0; i < v->n_values; i++) {
        const char *want = v->source[i] < 0 ? zero : (const char *)v->t->data + v->source[i] * (int64_t)size;
        assert_memory_equal((const char *)p->values.data + (size_t)i * size, want, size);
    }
}

/* ------------------------------------------------------------------ one case */

static void expect_same(const sp_packed *a, const sp_packed *b)
{
    const sparta_tensor *x[2 * SP_LEVELS + 1], *y[2 * SP_LEVELS + 1];
    for (int l = 0; l < SP_LEVELS; l++) {
        x[2 * l] = &a->pos[l], y[2 * l] = &b->pos[l];
        x[2 * l + 1] = &a->crd[l], y[2 * l + 1] = &b->crd[l];
    }
    x[2 * SP_LEVELS] = &a->values, y[2 * SP_LEVELS] = &b->values;
    for (size_t i = 0; i < SP_COUNT(x); i++) {
        assert_int_equal(x[i]->rank, y[i]->rank);
        if (!x[i]->rank) continue;
        assert_int_equal(x[i]->dim[0], y[i]->dim[0]);
        assert_memory_equal(x[i]->data, y[i]->data, (size_t)x[i]->dim[0] * sparta_dtype_size(x[i]->dtype));
    }
}

/* Unpack into a target of its own layout that was full of garbage. */
static void expect_unpack(const sp_packed *p, const sparta_tensor *t, const bool *stored)
{
    int64_t n = sparta_tensor_elements(t), size = (int64_t)sparta_dtype_size(t->dtype);
    char *data = sp_alloc(cx, (size_t)(2 * n * size));
    assert_non_null(data);
    memset(data, 0xa5, (size_t)(2 * n * size));
    sparta_tensor out = {t->dtype, t->rank, {0}, {0}, data, 0};
    int64_t stride = 2; /* column-major with gaps */
    for (int d = 0; d < t->rank; d++) {
        out.dim[d] = t->dim[d], out.stride[d] = stride;
        stride *= t->dim[d];
    }
    if (sp_store_unpack(cx, p, &out)) fail_msg("unpack: %s", sparta_message(cx));
    const sparta_tensor *both[2] = {t, &out};
    static const char zero[8];
    int64_t e = 0;
    for (sp_cursor w = sp_cursor_begin(t->rank, t->dim, 2, both); w.more; sp_cursor_next(&w), e++)
        assert_memory_equal(data + w.at[1] * size, stored[e] ? (const char *)t->data + w.at[0] * size : zero,
                            (size_t)size);
    for (int64_t i = 1; i < 2 * n; i += 2)
        assert_int_equal((unsigned char)data[i * size], 0xa5); /* the gaps */
    sp_free(cx, data);
}

static void expect_stats(const sp_packed *p, const sp_store_stats *s, int64_t elements)
{
    size_t bytes = (size_t)p->values.dim[0] * sparta_dtype_size(p->dtype);
    for (int l = 0; l < p->format.n; l++) {
        if (p->pos[l].rank) bytes += (size_t)p->pos[l].dim[0] * sparta_dtype_size(p->pos[l].dtype);
        if (p->crd[l].rank) bytes += (size_t)p->crd[l].dim[0] * sparta_dtype_size(p->crd[l].dtype);
    }
    assert_int_equal(s->elements, elements);
    assert_int_equal(s->slots, p->values.dim[0]);
    assert_int_equal(s->bytes, bytes);
    assert_true(fabs(s->fill - (double)s->slots / (double)SP_MAX(elements, 1)) < 1e-12);
}

static void check(const sp_format *f, const sparta_tensor *t, const sp_mask *mask, bool against_naive)
{
    bool *stored = calloc((size_t)sparta_tensor_elements(t) + 1, sizeof *stored);
    int64_t elements = 0, e = 0;
    for (sp_cursor w = sp_cursor_begin(t->rank, t->dim, 1, &t); w.more; sp_cursor_next(&w))
        elements += stored[e++] =
            mask ? sp_mask_get(mask, w.index[0], w.index[1]) : sp_element_stored(t->dtype, t->data, w.at[0]);
    sp_packed p, oracle = {.format = *f, .dtype = t->dtype, .rank = t->rank};
    sp_store_stats stats = {0}, measured;
    if (sp_store_pack(cx, f, t, mask, &p)) fail_msg("pack: %s", sparta_message(cx));
    assert_int_equal(sp_pack_generic(cx, &(sp_pack_job){f, t, mask, true}, &oracle, &stats), SPARTA_OK);
    assert_int_equal(sp_store_measure(cx, f, t, mask, &measured), SPARTA_OK);
    if (sp_packed_verify(cx, &p)) fail_msg("verify: %s", sparta_message(cx));
    expect_same(&p, &oracle);
    expect_stats(&p, &measured, elements);
    assert_true(stats.bytes == stats.pos_bytes + stats.crd_bytes + stats.value_bytes);
    assert_memory_equal(&stats, &measured, sizeof stats);
    expect_stats(&p, &stats, elements);
    expect_unpack(&p, t, stored);
    if (against_naive) {
        naive *v = calloc(1, sizeof *v);
        v->f = f, v->t = t, v->stored = stored;
        naive_walk(v, 0);
        expect_naive(&p, v);
        free(v);
    }
    sp_packed_free(cx, &p);
    sp_packed_free(cx, &oracle);
    free(stored);
}

/* ------------------------------------------------------------------ many cases */

static void put(sp_rng *r, sparta_dtype dtype, void *data, int64_t at, double density)
{
    static const double odd[] = {INFINITY, -INFINITY, NAN, -0.0, 1e-45};
    uint64_t dice = sp_rng_next(r) >> 33;
    double v = sp_rng_uniform(r) < density ? (double)(dice % 120) + 1 : 0;
    if (dice % 11 == 0 && sp_dtype_is_float(dtype)) v = odd[dice / 11 % SP_COUNT(odd)] * (density > 0);
    sp_element_set(dtype, data, at, v);
}

/* Rows, columns and tiles that are absent as a whole. */
static void carve(sp_rng *r, const sparta_tensor *t)
{
    for (int64_t i = 0; i < t->dim[0]; i++)
        if (sp_rng_next(r) % 4 == 0)
            for (int64_t j = 0; j < t->dim[1]; j++)
                sp_element_set(t->dtype, t->data, i * t->stride[0] + j * t->stride[1], 0);
}

static const int64_t shapes_2d[][2] = {{0, 0}, {0, 3}, {3, 0}, {1, 1},  {1, 9},  {9, 1},
                                       {4, 4}, {5, 7}, {8, 3}, {13, 6}, {16, 16}};

static void layouts(sp_rng *r, const sp_format *f, sparta_dtype dtype, const int64_t dim[2], double density,
                    bool against_naive)
{
    int64_t n = dim[0], k = dim[1], room = 6 * n * k + 1;
    void *data = sp_alloc_array(cx, (size_t)room, 8);
    assert_non_null(data);
    for (int64_t i = 0; i < room; i++) put(r, dtype, data, i, density);
    const int64_t strides[][2] = {{k, 1}, {1, n}, {3 * k, 2}};
    sparta_tensor t = {dtype, 2, {n, k}, {0, 0}, data, 0};
    memcpy(t.stride, strides[sp_rng_next(r) % 3], sizeof strides[0]);
    if (sp_rng_next(r) % 2) carve(r, &t);
    check(f, &t, NULL, against_naive);
    sp_mask m; /* explicit zeros kept, values outside dropped */
    assert_int_equal(sp_mask_create(cx, n, k, &m), SPARTA_OK);
    for (int64_t i = 0; i < n * k; i++)
        if (sp_rng_uniform(r) < density) sp_mask_set(&m, i / k, i % k);
    check(f, &t, &m, against_naive);
    sp_mask_free(cx, &m);
    sp_free(cx, data);
}

static void against_the_naive_packer(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(1);
    static const double densities[] = {0, 0.05, 0.4, 1};
    int d = 0;
    for (size_t i = 0; i < SP_COUNT(formats_2d); i++) {
        sp_format f = parse(formats_2d[i]);
        for (size_t s = 0; s < SP_COUNT(shapes_2d); s++)
            for (size_t q = 0; q < SP_COUNT(densities); q++) {
                layouts(&r, &f, (sparta_dtype)(d++ % SP_DTYPES), shapes_2d[s], densities[q], true);
            }
    }
}

static void larger_shapes_against_the_oracle(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(2);
    static const int64_t larger[][2] = {{1, 300}, {300, 1}, {65, 63}, {64, 128}, {100, 129}, {67, 200}};
    for (size_t i = 0; i < SP_COUNT(formats_2d); i++) {
        sp_format f = parse(formats_2d[i]);
        for (size_t s = 0; s < SP_COUNT(larger); s++)
            for (int n = 0; n < 3; n++) {
                if (sp_format_check(cx, &f, 2, larger[s])) continue; /* crd=u8 and 300 columns */
                layouts(&r, &f, (sparta_dtype)(sp_rng_next(&r) % SP_DTYPES), larger[s],
                        n == 0   ? 0.02
                        : n == 1 ? 0.3
                                 : 1,
                        false);
            }
    }
}

static void other_ranks(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "(i)->(i:dense)",
        "(i)->(i:compressed), crd=u8, pos=u8",
        "(i)->(i/4:compressed, i%4:dense)",
        "(i)->(i%4:dense, i/4:compressed)",
        "(i,j,k)->(i:compressed, j:compressed, k:compressed)",
        "(i,j,k)->(k:dense, i/2:compressed, j:dense, i%2:dense)",
        "(a,b,c,d)->(a/4:dense, b:compressed, c:dense, d/2:compressed, a%4:dense, d%2:dense)",
        "(a,b,c,d,e,f,g,h)->(h:dense, g:compressed, f:dense, e:dense, d/2:dense, c/2:compressed, b/2:dense, "
        "a/2:dense, "
        "a%2:dense, b%2:dense, c%2:dense, d%2:dense)"};
    sp_rng r = sp_rng_seed(3);
    int64_t room = 400;
    double *data = sp_alloc_array(cx, (size_t)room, 8);
    assert_non_null(data);
    for (size_t i = 0; i < SP_COUNT(texts); i++)
        for (int n = 0; n < 12; n++) {
            sp_format f = parse(texts[i]);
            sparta_tensor t = {.dtype = (sparta_dtype)(n % SP_DTYPES), .rank = f.rank, .data = data};
            int64_t stride = 1;
            for (int d = f.rank - 1; d >= 0; d--) {
                t.dim[d] = f.rank == 1 ? n * 3 : f.rank == 8 ? 1 + (n + d) % 2 : (n + d) % 4;
                t.stride[d] = stride;
                stride *= t.dim[d];
            }
            assert_true(stride <= room);
            for (int64_t e = 0; e < room; e++) put(&r, t.dtype, data, e, n % 2 ? 0.3 : 0.9);
            check(&f, &t, NULL, true);
        }
    sp_free(cx, data);
}

/* ------------------------------------------------------------------ arrays written out */

static void written_out(void **state)
{
    (void)state;
    float w[5 * 4] = {0, 1, 0, 0, /* strip 0 */
                      0, 2, 0, 3, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, -0.0f, 5 /* strip 1 */};
    sparta_tensor t = {SPARTA_F32, 2, {5, 4}, {4, 1}, w, 0};
    sp_format f = parse("strip(4)");
    sp_packed p;
    assert_int_equal(sp_store_pack(cx, &f, &t, NULL, &p), SPARTA_OK);
    expect_array(&p.pos[1], (int64_t[]){0, 2, 4}, 3, SPARTA_I32);
    expect_array(&p.crd[1], (int64_t[]){1, 3, 2, 3}, 4, SPARTA_U16); /* -0.0 is a value */
    static const float values[16] = {1, 2, 0, 4, 0, 3, 0, 0, -0.0f, 0, 0, 0, 5, 0, 0, 0};
    assert_int_equal(p.values.dim[0], 16);
    assert_memory_equal(p.values.data, values, sizeof values);
    assert_int_equal((uintptr_t)p.values.data % 64, 0);
    sp_packed_free(cx, &p);
    sp_packed_free(cx, &p); /* twice is fine */
    sp_packed_free(cx, NULL);

    int8_t q[4 * 6] = {1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 4};
    sparta_tensor b = {SPARTA_I8, 2, {4, 6}, {6, 1}, q, 0};
    f = parse("bsr(2,3), crd=u8, pos=i64");
    assert_int_equal(sp_store_pack(cx, &f, &b, NULL, &p), SPARTA_OK);
    expect_array(&p.pos[1], (int64_t[]){0, 2, 3}, 3, SPARTA_I64);
    expect_array(&p.crd[1], (int64_t[]){0, 1, 1}, 3, SPARTA_U8);
    static const int8_t blocks[18] = {1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4};
    assert_memory_equal(p.values.data, blocks, sizeof blocks);
    sp_packed_free(cx, &p);
}

/* ------------------------------------------------------------------ what does not fit */

static void widths_and_shapes(void **state)
{
    (void)state;
    float *w = sp_alloc_array(cx, 300, sizeof *w);
    assert_non_null(w);
    for (int i = 0; i < 300; i++) w[i] = 1;
    sp_packed p = {.rank = 77};
    sp_store_stats stats = {.slots = 77};
    sparta_tensor t = {SPARTA_F32, 2, {30, 10}, {10, 1}, w, 0},
                  three = {SPARTA_F32, 3, {3, 10, 10}, {100, 10, 1}, w, 0};
    static const char *const narrow[] = {"csr, pos=u8", "(i,j)->(i:compressed, j:compressed), pos[1]=u8"};
    for (size_t i = 0; i < SP_COUNT(narrow); i++) {
        sp_format f = parse(narrow[i]);
        assert_int_equal(sp_store_pack(cx, &f, &t, NULL, &p), SPARTA_E_USAGE);
        assert_string_equal(sparta_message(cx),
                            "format: pos=u8 holds positions up to 255, level 1 has 300; use pos=u16");
        assert_int_equal(sp_store_measure(cx, &f, &t, NULL, &stats), SPARTA_E_USAGE);
    }
    t.dim[0] = 25, t.dim[1] = 10; /* 250 fit */
    sp_format f = parse("csr, pos=u8, crd=u8");
    check(&f, &t, NULL, false);
    assert_int_equal(sp_store_pack(cx, &f, &three, NULL, &p), SPARTA_E_USAGE);
    sp_mask m;
    assert_int_equal(sp_mask_create(cx, 25, 11, &m), SPARTA_OK);
    assert_int_equal(sp_store_pack(cx, &f, &t, &m, &p), SPARTA_E_SHAPE);
    f = parse("(i,j,k)->(i:dense, j:dense, k:compressed)");
    assert_int_equal(sp_store_pack(cx, &f, &three, &m, &p), SPARTA_E_SHAPE);
    f = parse("csr, crd=u8");
    t.dim[0] = 1, t.dim[1] = 257;
    assert_int_equal(sp_store_pack(cx, &f, &t, NULL, &p), SPARTA_E_USAGE);
    t.dtype = (sparta_dtype)77;
    t.dim[1] = 20;
    assert_int_equal(sp_store_pack(cx, &f, &t, NULL, &p), SPARTA_E_DTYPE);
    assert_int_equal(p.rank, 77);
    assert_int_equal(stats.slots, 77);
    sp_mask_free(cx, &m);
    sp_free(cx, w);
}

/* Blocks far larger than the tensor, and shapes with very many rows of nothing: an answer or an error at
 * once. */
static void absurd_sizes(void **state)
{
    (void)state;
    float w[4] = {1, 2, 3, 4};
    sparta_tensor t = {SPARTA_F32, 2, {2, 2}, {2, 1}, w, 0},
                  rows = {SPARTA_F32, 2, {INT64_C(1) << 60, 0}, {0, 1}, w, 0};
    sparta_tensor cols = {SPARTA_F32, 2, {0, INT64_C(1) << 60}, {1, 1}, w, 0};
    sp_format f = parse("bsr(2147483647)");
    sp_packed p;
    sp_store_stats stats;
    assert_int_equal(sp_store_measure(cx, &f, &t, NULL, &stats), SPARTA_E_LIMIT); /* 2^64 bytes */
    assert_int_equal(sp_store_pack(cx, &f, &t, NULL, &p), SPARTA_E_LIMIT);
    f = parse("bsr(16777216)");
    assert_int_equal(sp_store_measure(cx, &f, &t, NULL, &stats), SPARTA_OK);
    assert_true(stats.slots == INT64_C(1) << 48);
    assert_int_equal(sp_store_pack(cx, &f, &t, NULL, &p), SPARTA_E_MEMORY);
    static const char *const texts[] = {
        "csr, crd=i64",  "csc, crd=i64", "bsr(4,4), crd=i64", "strip(4), crd=i64", "dense",
        "dcsr, crd=i64", "panel"};
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        f = parse(texts[i]);
        for (int n = 0; n < 2; n++) {
            sparta_status status = sp_store_pack(cx, &f, n ? &rows : &cols, NULL, &p);
            if (status)
                assert_int_equal(status, SPARTA_E_MEMORY);
            else {
                assert_int_equal(sp_packed_verify(cx, &p), SPARTA_OK);
                assert_int_equal(sp_store_unpack(cx, &p, n ? &rows : &cols), SPARTA_OK);
                sp_packed_free(cx, &p);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(written_out),
                                       cmocka_unit_test(against_the_naive_packer),
                                       cmocka_unit_test(larger_shapes_against_the_oracle),
                                       cmocka_unit_test(other_ranks),
                                       cmocka_unit_test(widths_and_shapes),
                                       cmocka_unit_test(absurd_sizes)};
    return cmocka_run_group_tests(tests, set_up_strict, tear_down);
}
