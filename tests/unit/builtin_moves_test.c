/* Operators that only move elements, on random shapes and types, row-major and with strides, against a plain loop over indices here. */
#include "builtin_bed.h"

enum { ROUNDS = 300 };

static sp_rng rng;

static int64_t below(int64_t n)
{
    return (int64_t)(sp_rng_uniform(&rng) * (double)n);
}

/* A tensor of random bytes; with gaps: every other element along the last dim of a larger one, backwards along the first. */
static sparta_tensor made(sparta_dtype dtype, int rank, const int64_t *dim, bool gaps)
{
    int64_t wide[SPARTA_RANK] = {0};
    sparta_tensor t;
    for (int i = 0; i < rank; i++) wide[i] = dim[i] * (gaps && i == rank - 1 ? 2 : 1);
    ok(sp_tensor_alloc(cx, dtype, rank, wide, &t));
    for (int64_t i = 0; i < sparta_tensor_elements(&t) * (int64_t)sparta_dtype_size(dtype); i++)
        ((uint8_t *)t.data)[i] = (uint8_t)below(250);
    if (gaps && rank) {
        t.dim[rank - 1] = dim[rank - 1];
        t.stride[rank - 1] = 2;
    }
    return t;
}

static sparta_tensor random_tensor(bool gaps, int least)
{
    static const sparta_dtype types[] = {SPARTA_U8, SPARTA_F16, SPARTA_F32, SPARTA_I64};
    static const int64_t sizes[] = {1, 2, 3, 5, 8, 17, 33};
    int64_t dim[SPARTA_RANK], n = 1;
    const int rank = least + (int)below(4);
    for (int i = 0; i < rank; i++) {
        dim[i] = sizes[below(SP_COUNT(sizes))];
        if (n * dim[i] > 4000) dim[i] = 1;
        n *= dim[i];
    }
    return made(types[below(4)], rank, dim, gaps);
}

static int64_t place(const sparta_tensor *t, const int64_t *index)
{
    int64_t at = 0;
    for (int i = 0; i < t->rank; i++) at += index[i] * t->stride[i];
    return at;
}

/* Is y[index] = the element of x at `at`, for every index? `at` is asked with the index in y; -1: `other`. */
typedef int64_t (*from_where)(const sparta_tensor *x, const int64_t *index, const void *more);
static void check_moves(const sparta_tensor *x, const sparta_tensor *y, from_where at, const void *more,
                        const void *other)
{
    const size_t size = sparta_dtype_size(x->dtype);
    for (sp_cursor w = sp_cursor_begin(y->rank, y->dim, 1, &y); w.more; sp_cursor_next(&w)) {
        const int64_t from = at(x, w.index, more);
        assert_memory_equal((char *)y->data + w.at[0] * (int64_t)size,
                            from < 0 ? other : (char *)x->data + (from - 1) * (int64_t)size, size);
    }
}

/* ------------------------------------------------------------------ Tile, Pad */
static int64_t from_tile(const sparta_tensor *x, const int64_t *index, const void *more)
{
    int64_t at[SPARTA_RANK];
    (void)more;
    for (int i = 0; i < x->rank; i++) at[i] = index[i] % x->dim[i];
    return 1 + place(x, at);
}

static void test_tile(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const sparta_tensor x = random_tensor(round % 3 == 0, 1);
        int64_t dim[SPARTA_RANK], times[SPARTA_RANK];
        for (int i = 0; i < x.rank; i++) dim[i] = x.dim[i] * (times[i] = 1 + below(3));
        const sparta_tensor y = made(x.dtype, x.rank, dim, round % 5 == 0), n = I64(times, x.rank);
        ok(CALL(Tile, &none, y, x, n));
        check_moves(&x, &y, from_tile, NULL, NULL);
        sp_free(cx, x.data), sp_free(cx, y.data);
    }
}

typedef struct padding {
    int mode;
    int64_t before[SPARTA_RANK];
} padding;

static int64_t from_pad(const sparta_tensor *x, const int64_t *index, const void *more)
{
    const padding *p = more;
    int64_t at[SPARTA_RANK];
    for (int d = 0; d < x->rank; d++) {
        const int64_t n = x->dim[d];
        int64_t i = index[d] - p->before[d];
        if (p->mode == 0 && (i < 0 || i >= n)) return -1;
        while (p->mode == 1 && n > 1 && (i < 0 || i >= n)) i = i < 0 ? -i : 2 * (n - 1) - i;
        if (p->mode == 2 || n == 1) i = i < 0 ? 0 : i >= n ? n - 1 : i;
        if (p->mode == 3) i = (i % n + n) % n;
        at[d] = i;
    }
    return 1 + place(x, at);
}

static void test_pad(void **state)
{
    (void)state;
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
    for (int round = 0; round < 2 * ROUNDS; round++) {
        const sparta_tensor x = random_tensor(round % 3 == 0, 1);
        padding p = {.mode = round % 4};
        int64_t dim[SPARTA_RANK], pads[2 * SPARTA_RANK], constant = 0x0102030405060708;
        for (int i = 0; i < x.rank; i++) {
            p.before[i] = pads[i] = below(4) - (p.mode == 0 && below(3) == 0 ? 2 : 0);
            pads[x.rank + i] = below(4) - (p.mode == 0 && below(3) == 0 ? 2 : 0);
            dim[i] = x.dim[i] + pads[i] + pads[x.rank + i];
            if (dim[i] < 0) pads[x.rank + i] -= dim[i], dim[i] = 0;
        }
        const sparta_tensor y = made(x.dtype, x.rank, dim, round % 5 == 0), n = I64(pads, 2 * x.rank);
        const sparta_tensor k = sparta_tensor_view(x.dtype, 0, NULL, &constant);
        ok(CALL(Pad, ATTRS(STRING("mode", modes[p.mode])), y, x, n, k));
        check_moves(&x, &y, from_pad, &p, &constant);
        sp_free(cx, x.data), sp_free(cx, y.data);
    }
}

/* ------------------------------------------------------------------ gathers */
typedef struct gathered {
    int axis;
    sparta_tensor indices;
} gathered;

static int64_t index_at(const sparta_tensor *t, const int64_t *index, int64_t size)
{
    const int64_t i = sp_element_get_int(t->dtype, t->data, place(t, index));
    return i < 0 ? i + size : i;
}

static sparta_tensor random_indices(int rank, const int64_t *dim, int64_t size, bool gaps)
{
    sparta_tensor t = made(below(2) ? SPARTA_I64 : SPARTA_I32, rank, dim, gaps);
    const sparta_tensor *one[] = {&t};
    for (sp_cursor w = sp_cursor_begin(rank, dim, 1, one); w.more; sp_cursor_next(&w))
        sp_element_set_int(t.dtype, t.data, w.at[0], below(2 * size) - size);
    return t;
}

static int64_t from_gather(const sparta_tensor *x, const int64_t *index, const void *more)
{
    const gathered *g = more;
    int64_t at[SPARTA_RANK];
    for (int i = 0; i < g->axis; i++) at[i] = index[i];
    at[g->axis] = index_at(&g->indices, index + g->axis, x->dim[g->axis]);
    for (int i = g->axis + 1; i < x->rank; i++) at[i] = index[i - 1 + g->indices.rank];
    return 1 + place(x, at);
}

static int64_t from_elements(const sparta_tensor *x, const int64_t *index, const void *more)
{
    const gathered *g = more;
    int64_t at[SPARTA_RANK];
    for (int i = 0; i < x->rank; i++)
        at[i] = i == g->axis ? index_at(&g->indices, index, x->dim[i]) : index[i];
    return 1 + place(x, at);
}

static void test_gather(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const sparta_tensor x = random_tensor(round % 3 == 0, 1);
        gathered g = {.axis = (int)below(x.rank)};
        const int rank = (int)below(3);
        int64_t picks[2] = {below(6), below(9)}, dim[SPARTA_RANK];
        g.indices = random_indices(rank, picks, x.dim[g.axis], round % 4 == 0);
        for (int i = 0; i < g.axis; i++) dim[i] = x.dim[i];
        for (int i = 0; i < rank; i++) dim[g.axis + i] = picks[i];
        for (int i = g.axis + 1; i < x.rank; i++) dim[i - 1 + rank] = x.dim[i];
        const sparta_tensor y = made(x.dtype, x.rank - 1 + rank, dim, round % 5 == 0);
        ok(CALL(Gather, ATTRS(INT("axis", g.axis - (round % 2 ? x.rank : 0))), y, x, g.indices));
        check_moves(&x, &y, from_gather, &g, NULL);
        sp_free(cx, x.data), sp_free(cx, y.data), sp_free(cx, g.indices.data);
    }
}

static void test_gather_elements(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const sparta_tensor x = random_tensor(round % 3 == 0, 1);
        gathered g = {.axis = (int)below(x.rank)};
        int64_t dim[SPARTA_RANK];
        for (int i = 0; i < x.rank; i++) dim[i] = i == g.axis ? below(300) : 1 + below(x.dim[i]);
        g.indices = random_indices(x.rank, dim, x.dim[g.axis], round % 4 == 0);
        const sparta_tensor y = made(x.dtype, x.rank, dim, round % 5 == 0);
        ok(CALL(GatherElements, ATTRS(INT("axis", g.axis)), y, x, g.indices));
        check_moves(&x, &y, from_elements, &g, NULL);
        sp_free(cx, x.data), sp_free(cx, y.data), sp_free(cx, g.indices.data);
    }
}

/* ------------------------------------------------------------------ tuples */
static int64_t from_tuples(const sparta_tensor *x, const int64_t *index, const void *more)
{
    const gathered *g = more; /* axis: the dims of the batch */
    const int last = g->indices.rank - 1, tuple = (int)g->indices.dim[last];
    int64_t at[SPARTA_RANK], entry[SPARTA_RANK];
    for (int i = 0; i < last; i++) entry[i] = index[i];
    for (int i = 0; i < g->axis; i++) at[i] = index[i];
    for (int i = 0; i < tuple; i++) {
        entry[last] = i;
        at[g->axis + i] = index_at(&g->indices, entry, x->dim[g->axis + i]);
    }
    for (int i = g->axis + tuple; i < x->rank; i++) at[i] = index[last + i - g->axis - tuple];
    return 1 + place(x, at);
}

static void test_gather_nd(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const sparta_tensor x = random_tensor(round % 3 == 0, 2);
        gathered g = {.axis = (int)below(x.rank)};
        const int tuple = 1 + (int)below(x.rank - g.axis), rest = x.rank - g.axis - tuple;
        int64_t dim[SPARTA_RANK] = {0}, out[SPARTA_RANK], least = 1 << 20;
        for (int i = 0; i < g.axis; i++) out[i] = dim[i] = x.dim[i];
        out[g.axis] = dim[g.axis] = 1 + below(9);
        dim[g.axis + 1] = tuple;
        for (int i = 0; i < tuple; i++) least = SP_MIN(least, x.dim[g.axis + i]);
        for (int i = 0; i < rest; i++) out[g.axis + 1 + i] = x.dim[g.axis + tuple + i];
        g.indices = random_indices(g.axis + 2, dim, least, round % 4 == 0);
        const sparta_tensor y = made(x.dtype, g.axis + 1 + rest, out, round % 5 == 0);
        ok(CALL(GatherND, ATTRS(INT("batch_dims", g.axis)), y, x, g.indices));
        check_moves(&x, &y, from_tuples, &g, NULL);
        sp_free(cx, x.data), sp_free(cx, y.data), sp_free(cx, g.indices.data);
    }
}

static void test_scatter_nd(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const sparta_tensor x = random_tensor(round % 3 == 0, 2);
        const int tuple = 1 + (int)below(x.rank);
        int64_t dim[2] = {below(9), tuple}, out[SPARTA_RANK], least = 1 << 20, n = dim[0];
        for (int i = 0; i < tuple; i++) least = SP_MIN(least, x.dim[i]);
        out[0] = n;
        for (int i = tuple; i < x.rank; i++) out[1 + i - tuple] = x.dim[i];
        const sparta_tensor indices = random_indices(2, dim, least, false);
        const sparta_tensor updates = made(x.dtype, 1 + x.rank - tuple, out, round % 4 == 0);
        const sparta_tensor y = made(x.dtype, x.rank, x.dim, round % 5 == 0),
                            same = made(x.dtype, x.rank, x.dim, false);
        const size_t size = sparta_dtype_size(x.dtype);
        const sparta_tensor *copy[] = {&x, &same}, *one[] = {&updates}, *both[] = {&y, &same};
        for (sp_cursor w = sp_cursor_begin(x.rank, x.dim, 2, copy); w.more; sp_cursor_next(&w))
            memcpy((char *)same.data + w.at[1] * (int64_t)size, (char *)x.data + w.at[0] * (int64_t)size,
                   size);
        for (sp_cursor w = sp_cursor_begin(updates.rank, updates.dim, 1, one); w.more; sp_cursor_next(&w)) {
            int64_t at[SPARTA_RANK];
            for (int i = 0; i < tuple; i++) at[i] = index_at(&indices, (int64_t[]){w.index[0], i}, x.dim[i]);
            for (int i = tuple; i < x.rank; i++) at[i] = w.index[1 + i - tuple];
            memcpy((char *)same.data + place(&same, at) * (int64_t)size,
                   (char *)updates.data + w.at[0] * (int64_t)size, size);
        }
        ok(CALL(ScatterND, &none, y, x, indices, updates));
        for (sp_cursor w = sp_cursor_begin(x.rank, x.dim, 2, both); w.more; sp_cursor_next(&w))
            assert_memory_equal((char *)y.data + w.at[0] * (int64_t)size,
                                (char *)same.data + w.at[1] * (int64_t)size, size);
        sp_free(cx, x.data), sp_free(cx, y.data), sp_free(cx, same.data), sp_free(cx, indices.data),
            sp_free(cx, updates.data);
    }
}

/* ------------------------------------------------------------------ Trilu */
static int64_t from_triangle(const sparta_tensor *x, const int64_t *index, const void *more)
{
    const int64_t *k = more, diagonal = index[x->rank - 1] - index[x->rank - 2];
    return (k[1] ? diagonal >= k[0] : diagonal <= k[0]) ? 1 + place(x, index) : -1;
}

static void test_trilu(void **state)
{
    (void)state;
    static const int64_t far[] = {INT64_MIN, INT64_MAX, -100000, 100000};
    for (int round = 0; round < ROUNDS; round++) {
        const sparta_tensor x = random_tensor(round % 3 == 0, 2),
                            y = made(x.dtype, x.rank, x.dim, round % 5 == 0);
        int64_t k[2] = {round % 10 == 9 ? far[below(4)] : below(9) - 4, round % 2}, zero = 0;
        ok(CALL(Trilu, ATTRS(INT("upper", k[1])), y, x, sparta_tensor_view(SPARTA_I64, 0, NULL, &k[0])));
        check_moves(&x, &y, from_triangle, k, &zero);
        sp_free(cx, x.data), sp_free(cx, y.data);
    }
}

/* An index that is outside is an error, never a read. */
static void test_outside(void **state)
{
    (void)state;
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6];
    int64_t far[6] = {0, 1, 2, 0, -3, 1}, huge[2] = {0, INT64_MIN};
    const sparta_tensor t = F32(x, 2, 3), out = F32(y, 2, 3);
    fails_saying(SPARTA_E_RANGE, "index 2 ", CALL(Gather, &none, F32(y, 6), F32(x, 2), I64(far, 6)));
    fails_saying(SPARTA_E_RANGE, "index -3 ",
                 CALL(GatherElements, ATTRS(INT("axis", 0)), F32(y, 2), F32(x, 2), I64(far + 4, 2)));
    fails(SPARTA_E_RANGE, CALL(GatherElements, ATTRS(INT("axis", 0)), out, t, I64(far, 2, 3)));
    fails(SPARTA_E_RANGE, CALL(GatherND, &none, F32(y, 1), t, I64(huge, 1, 2)));
    fails(SPARTA_E_RANGE, CALL(ScatterND, &none, out, t, I64(huge, 1, 2), F32(y, 1)));
    fails(SPARTA_E_RANGE,
          CALL(GatherElements, ATTRS(INT("axis", 0)), F32(y, 1, 4), F32(x, 2, 3), I64(far, 1, 4)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tile),      cmocka_unit_test(test_pad),
        cmocka_unit_test(test_gather),    cmocka_unit_test(test_gather_elements),
        cmocka_unit_test(test_gather_nd), cmocka_unit_test(test_scatter_nd),
        cmocka_unit_test(test_trilu),     cmocka_unit_test(test_outside),
    };
    rng = sp_rng_seed(11);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
