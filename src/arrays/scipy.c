/* The matrices of scipy.sparse.save_npz: an npz with `format` (a string), `shape`, `data` and, by layout,
 *
 *     csr csc bsr   indptr (rows or columns or block rows + 1), indices
 *     coo           row, col
 *     dia           offsets; data[k][j] is the element (j - offsets[k], j)
 */
#include "arrays/arrays.h"
#include <string.h>

typedef struct source {
    sparta_ctx *cx;
    const sp_npz *z;
    int64_t dim[2];
    const sparta_tensor *data;
} source;

/* ------------------------------------------------------------------ arrays of the file */

static bool is_integer(const sparta_tensor *t)
{
    return !sp_dtype_is_float(t->dtype) && t->dtype != SPARTA_BOOL;
}

static sparta_status need(const source *s, const char *name, int rank, const sparta_tensor **out)
{
    const sparta_tensor *t = sp_npz_find(s->z, name);
    if (!t) return sp_fail(s->cx, SPARTA_E_FORMAT, "the array \"%s\" is missing", name);
    if (t->rank != rank)
        return sp_fail(s->cx, SPARTA_E_FORMAT, "the array \"%s\" has %d dimensions, not %d", name, t->rank,
                       rank);
    *out = t;
    return SPARTA_OK;
}

/* Indices: integers, one dimension; `n` of them unless it is -1. */
static sparta_status need_ints(const source *s, const char *name, int64_t n, const sparta_tensor **out)
{
    const sparta_tensor *t = NULL;
    SP_TRY(need(s, name, 1, &t));
    if (!is_integer(t))
        return sp_fail(s->cx, SPARTA_E_FORMAT, "the array \"%s\" is %s, not integer", name,
                       sparta_dtype_name(t->dtype));
    if (n >= 0 && t->dim[0] != n)
        return sp_fail(s->cx, SPARTA_E_FORMAT, "the array \"%s\" has %lld elements, not %lld", name,
                       (long long)t->dim[0], (long long)n);
    *out = t;
    return SPARTA_OK;
}

/* u64 beyond 63 bits comes out negative and is refused like every negative index. */
static int64_t at(const sparta_tensor *t, int64_t i)
{
    return sp_element_get_int(t->dtype, t->data, i);
}

static sparta_status read_shape(source *s)
{
    const sparta_tensor *shape = NULL;
    SP_TRY(need_ints(s, "shape", -1, &shape));
    if (shape->dim[0] != 2)
        return sp_fail(s->cx, SPARTA_E_UNSUPPORTED, "the matrix has %lld dimensions; 2 are supported",
                       (long long)shape->dim[0]);
    for (int d = 0; d < 2; d++) s->dim[d] = at(shape, d);
    if (s->dim[0] < 0 || s->dim[1] < 0)
        return sp_fail(s->cx, SPARTA_E_FORMAT, "the shape is %lld x %lld", (long long)s->dim[0],
                       (long long)s->dim[1]);
    return SPARTA_OK;
}

static void copy_value(const source *s, int64_t from, sp_coo *c, int64_t to)
{
    size_t size = sparta_dtype_size(s->data->dtype);
    memcpy((uint8_t *)c->values.data + (size_t)to * size, (uint8_t *)s->data->data + (size_t)from * size,
           size);
}

/* ------------------------------------------------------------------ csr, csc, bsr */

/* The pointers of `n` segments into `most` slots, checked whole. *used: where the last one ends; SciPy allows more slots than that. */
static sparta_status check_pointers(const source *s, const sparta_tensor *p, int64_t n, int64_t most,
                                    int64_t *used)
{
    for (int64_t i = 0; i <= n; i++) {
        int64_t least = i ? at(p, i - 1) : 0;
        if (at(p, i) < least || at(p, i) > most || (i == 0 && at(p, 0) != 0))
            return sp_fail(
                s->cx, SPARTA_E_FORMAT,
                "indptr[%lld] is %lld; it must not be below the one before it (0 at first) nor above %lld",
                (long long)i, (long long)at(p, i), (long long)most);
    }
    *used = at(p, n);
    return SPARTA_OK;
}

/* Segments along dimension `outer` of blocks b[0] x b[1]; csr and csc are blocks of 1x1. */
static sparta_status fill_segments(const source *s, const sparta_tensor *p, const sparta_tensor *indices,
                                   int outer, const int64_t b[2], sp_coo *c)
{
    int64_t n = s->dim[outer] / b[outer], inner = s->dim[!outer] / b[!outer], out = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = at(p, i); k < at(p, i + 1); k++) {
            int64_t j = at(indices, k);
            if (j < 0 || j >= inner)
                return sp_fail(s->cx, SPARTA_E_RANGE, "indices[%lld] is %lld, not below %lld", (long long)k,
                               (long long)j, (long long)inner);
            for (int64_t e = 0; e < b[0] * b[1]; e++, out++) {
                c->index[0][out] = (outer ? j : i) * b[0] + e / b[1];
                c->index[1][out] = (outer ? i : j) * b[1] + e % b[1];
                copy_value(s, k * b[0] * b[1] + e, c, out);
            }
        }
    return SPARTA_OK;
}

static sparta_status read_segments(source *s, int outer, const int64_t b[2], sp_coo *out)
{
    const sparta_tensor *p = NULL, *indices = NULL;
    int64_t used = 0, n = 0;
    SP_TRY(need_ints(s, "indices", s->data->dim[0], &indices));
    SP_TRY(need_ints(s, "indptr", -1, &p));
    if (p->dim[0] < 1 || p->dim[0] - 1 != s->dim[outer] / b[outer])
        return sp_fail(s->cx, SPARTA_E_FORMAT, "indptr has %lld elements, not %lld", (long long)p->dim[0],
                       (long long)(s->dim[outer] / b[outer] + 1));
    SP_TRY(check_pointers(s, p, p->dim[0] - 1, indices->dim[0], &used));
    if (!sp_int_mul(used, b[0] * b[1], &n)) return sp_fail(s->cx, SPARTA_E_RANGE, "too many elements");
    SP_TRY(sp_coo_alloc(s->cx, 2, s->dim, n, &s->data->dtype, out));
    return fill_segments(s, p, indices, outer, b, out);
}

static sparta_status read_csr(source *s, sp_coo *out)
{
    SP_TRY(need(s, "data", 1, &s->data));
    return read_segments(s, 0, (int64_t[]){1, 1}, out);
}

static sparta_status read_csc(source *s, sp_coo *out)
{
    SP_TRY(need(s, "data", 1, &s->data));
    return read_segments(s, 1, (int64_t[]){1, 1}, out);
}

static sparta_status read_bsr(source *s, sp_coo *out)
{
    SP_TRY(need(s, "data", 3, &s->data));
    const int64_t *b = s->data->dim + 1;
    if (b[0] < 1 || b[1] < 1 || s->dim[0] % b[0] || s->dim[1] % b[1])
        return sp_fail(s->cx, SPARTA_E_FORMAT, "blocks of %lld x %lld do not divide a matrix of %lld x %lld",
                       (long long)b[0], (long long)b[1], (long long)s->dim[0], (long long)s->dim[1]);
    if (s->data->dim[0] == 0)
        return read_segments(s, 0, (int64_t[]){b[0], 1}, out); /* b[0]*b[1] may be anything */
    return read_segments(s, 0, b, out);
}

/* ------------------------------------------------------------------ coo, dia */

static sparta_status read_coo(source *s, sp_coo *out)
{
    const sparta_tensor *row = NULL, *col = NULL;
    SP_TRY(need(s, "data", 1, &s->data));
    int64_t n = s->data->dim[0];
    SP_TRY(need_ints(s, "row", n, &row));
    SP_TRY(need_ints(s, "col", n, &col));
    SP_TRY(sp_coo_alloc(s->cx, 2, s->dim, n, &s->data->dtype, out));
    for (int64_t i = 0; i < n; i++) {
        out->index[0][i] = at(row, i);
        out->index[1][i] = at(col, i);
        copy_value(s, i, out, i);
    }
    return SPARTA_OK; /* sp_coo_canonical checks the indices */
}

/* Does the slot j of diagonal `offset` lie in the matrix and hold something? -0.0 is a value. */
static bool in_diagonal(const source *s, int64_t k, int64_t offset, int64_t j)
{
    int64_t row;
    size_t size = sparta_dtype_size(s->data->dtype);
    static const uint8_t zero[8];
    if (j >= s->dim[1] || __builtin_sub_overflow(j, offset, &row) || row < 0 || row >= s->dim[0])
        return false;
    return memcmp((uint8_t *)s->data->data + (size_t)(k * s->data->dim[1] + j) * size, zero, size) != 0;
}

static int64_t walk_diagonals(const source *s, const sparta_tensor *offsets, sp_coo *out)
{
    int64_t n = 0;
    for (int64_t k = 0; k < s->data->dim[0]; k++)
        for (int64_t j = 0; j < s->data->dim[1]; j++) {
            int64_t offset = at(offsets, k);
            if (!in_diagonal(s, k, offset, j)) continue;
            if (out) {
                out->index[0][n] = j - offset;
                out->index[1][n] = j;
                copy_value(s, k * s->data->dim[1] + j, out, n);
            }
            n++;
        }
    return n;
}

static sparta_status check_offsets(const source *s, const sparta_tensor *offsets)
{
    sp_coo c;
    int64_t n = offsets->dim[0];
    SP_TRY(sp_coo_alloc(s->cx, 1, (int64_t[]){INT64_MAX}, n, NULL, &c));
    bool twice = false, far = false;
    for (int64_t k = 0; k < n; k++) {
        int64_t o = at(offsets, k);
        far |= o < -s->dim[0] || o > s->dim[1] || !sp_int_add(o, s->dim[0], &c.index[0][k]);
    }
    sparta_status status = far ? SPARTA_OK : sp_coo_canonical(&c);
    twice = !far && !status && c.n != n;
    sp_coo_free(&c);
    if (far) return sp_fail(s->cx, SPARTA_E_RANGE, "an offset lies outside of the matrix");
    if (twice) return sp_fail(s->cx, SPARTA_E_FORMAT, "an offset occurs twice");
    return status;
}

static sparta_status read_dia(source *s, sp_coo *out)
{
    const sparta_tensor *offsets = NULL;
    SP_TRY(need(s, "data", 2, &s->data));
    SP_TRY(need_ints(s, "offsets", s->data->dim[0], &offsets));
    SP_TRY(check_offsets(s, offsets));
    if (s->data->dim[1] == 0) return sp_coo_alloc(s->cx, 2, s->dim, 0, &s->data->dtype, out);
    SP_TRY(sp_coo_alloc(s->cx, 2, s->dim, walk_diagonals(s, offsets, NULL), &s->data->dtype, out));
    walk_diagonals(s, offsets, out);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ reading */

static const struct {
    const char *name;
    sparta_status (*read)(source *, sp_coo *);
} layouts[] = {{"csr", read_csr}, {"csc", read_csc}, {"bsr", read_bsr}, {"coo", read_coo}, {"dia", read_dia}};

bool sp_npz_is_scipy(const sp_npz *z)
{
    const sparta_tensor *f = sp_npz_find(z, "format");
    return f && f->dtype == SPARTA_U8 && f->rank == 1 && sp_npz_find(z, "shape") && sp_npz_find(z, "data") &&
           !sp_npz_find(z, "sparta");
}

static sparta_status read_layout(source *s, sp_coo *out)
{
    if (!sp_npz_is_scipy(s->z))
        return sp_fail(s->cx, SPARTA_E_FORMAT,
                       "not a matrix of scipy.sparse.save_npz: it lacks `format`, `shape`, `data` or "
                       "indices, or is packed by sparta");
    const sparta_tensor *f = sp_npz_find(s->z, "format");
    size_t n = (size_t)f->dim[0];
    for (; n && ((const char *)f->data)[n - 1] == 0; n--) continue; /* NumPy pads strings with NUL */
    SP_TRY(read_shape(s));
    for (size_t i = 0; i < SP_COUNT(layouts); i++)
        if (n == 3 && !memcmp(f->data, layouts[i].name, 3)) return layouts[i].read(s, out);
    return sp_fail(s->cx, SPARTA_E_UNSUPPORTED,
                   "the layout \"%.*s\" is not supported; csr, csc, coo, bsr and dia are",
                   (int)SP_MIN(n, (size_t)20), (const char *)f->data);
}

sparta_status sp_scipy_matrix(sparta_ctx *cx, const sp_npz *z, sp_coo *out)
{
    source s = {.cx = cx, .z = z};
    sp_coo c = {0};
    sparta_status status = read_layout(&s, &c);
    if (!status) status = sp_coo_canonical(&c);
    if (status) {
        sp_coo_free(&c);
        return status;
    }
    *out = c;
    return SPARTA_OK;
}

sparta_status sp_scipy_read(sparta_ctx *cx, const char *path, sp_coo *out)
{
    sp_npz z;
    SP_TRY(sp_npz_read(cx, path, &z));
    sparta_status status = sp_scipy_matrix(cx, &z, out);
    sp_npz_free(&z);
    return status ? sp_fail_in(cx, "%s", path) : SPARTA_OK;
}
