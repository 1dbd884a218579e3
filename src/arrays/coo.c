/* A matrix as its entries: made, sorted, duplicates summed, spread out. */
#include "arrays/coo.h"
#include <string.h>

enum { DIGIT = 11, BINS = 1 << DIGIT };

sparta_status sp_coo_alloc(sparta_ctx *cx, int rank, const int64_t *dim, int64_t n,
                           const sparta_dtype *values, sp_coo *out)
{
    sp_coo c = {.cx = cx, .rank = rank, .n = n};
    sparta_status status = SPARTA_OK;
    for (int d = 0; d < rank; d++) c.dim[d] = dim[d];
    for (int d = 0; d < rank && !status; d++) {
        c.index[d] = sp_alloc_array(cx, (size_t)n, sizeof(int64_t));
        if (!c.index[d]) status = sp_ctx_status(cx);
    }
    if (!status && values) status = sp_tensor_alloc(cx, *values, 1, &n, &c.values);
    if (status) {
        sp_coo_free(&c);
        return status;
    }
    *out = c;
    return SPARTA_OK;
}

void sp_coo_free(sp_coo *c)
{
    if (!c || !c->cx) return;
    for (int d = 0; d < c->rank; d++) sp_free(c->cx, c->index[d]);
    sp_free(c->cx, c->values.data);
    *c = (sp_coo){0};
}

/* ------------------------------------------------------------------ order */

static int compare(const sp_coo *c, int64_t a, int64_t b)
{
    for (int d = 0; d < c->rank; d++)
        if (c->index[d][a] != c->index[d][b]) return c->index[d][a] < c->index[d][b] ? -1 : 1;
    return 0;
}

static bool is_canonical(const sp_coo *c)
{
    for (int64_t i = 1; i < c->n; i++)
        if (compare(c, i - 1, i) >= 0) return false;
    return true;
}

/* One stable pass over one digit of one index: entries `from` go to `to` in the digit's order. */
static void pass(const int64_t *key, int shift, int64_t n, const int64_t *from, int64_t *to)
{
    int64_t start[BINS] = {0}, at = 0;
    for (int64_t i = 0; i < n; i++) start[key[i] >> shift & (BINS - 1)]++;
    for (int b = 0; b < BINS; b++) {
        int64_t count = start[b];
        start[b] = at;
        at += count;
    }
    for (int64_t i = 0; i < n; i++) to[start[key[from[i]] >> shift & (BINS - 1)]++] = from[i];
}

/* The order of the entries, in order[0..n); order has room for 2n. Last index first, low digits first. */
static sparta_status sort(sp_coo *c, int64_t *order, int64_t **sorted)
{
    int64_t *from = order, *to = order + c->n;
    for (int64_t i = 0; i < c->n; i++) from[i] = i;
    for (int d = c->rank - 1; d >= 0; d--)
        for (int shift = 0; shift < 63 && (c->dim[d] - 1) >> shift > 0; shift += DIGIT) {
            SP_TRY(sp_check_cancel(c->cx));
            pass(c->index[d], shift, c->n, from, to);
            int64_t *swap = from;
            from = to;
            to = swap;
        }
    *sorted = from;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ duplicates */

/* values[to] += from[at], exactly or not at all. */
static sparta_status add(sparta_ctx *cx, const sparta_tensor *v, const void *from, int64_t at, int64_t to)
{
    sparta_dtype t = v->dtype;
    if (sp_dtype_is_float(t)) {
        sp_element_set(t, v->data, to, sp_element_get(t, v->data, to) + sp_element_get(t, from, at));
        return SPARTA_OK;
    }
    int64_t a = sp_element_get_int(t, v->data, to), b = sp_element_get_int(t, from, at), sum = 0;
    bool fits = t == SPARTA_BOOL ||
                (t == SPARTA_U64 ? !__builtin_add_overflow((uint64_t)a, (uint64_t)b, (uint64_t *)&sum)
                                 : sp_int_add(a, b, &sum));
    if (t == SPARTA_BOOL) sum = a | b;
    if (fits) {
        sp_element_set_int(t, v->data, to, sum);
        fits = sp_element_get_int(t, v->data, to) == sum;
    }
    return fits ? SPARTA_OK
                : sp_fail(cx, SPARTA_E_RANGE, "the sum of duplicate entries does not fit in %s",
                          sparta_dtype_name(t));
}

/* New arrays in the given order, duplicates summed in it. */
static sparta_status gather(const sp_coo *c, const int64_t *order, sp_coo *out)
{
    size_t size = c->values.data ? sparta_dtype_size(c->values.dtype) : 0;
    int64_t n = 0;
    for (int64_t i = 0; i < c->n; i++) {
        int64_t from = order[i];
        if (i > 0 && !compare(c, order[i - 1], from)) {
            if (size && add(c->cx, &out->values, c->values.data, from, n - 1))
                return sp_fail_in(c->cx, "element (%lld, %lld)", (long long)c->index[0][from],
                                  (long long)(c->rank > 1 ? c->index[1][from] : 0));
            continue;
        }
        for (int d = 0; d < c->rank; d++) out->index[d][n] = c->index[d][from];
        if (size)
            memcpy((uint8_t *)out->values.data + (size_t)n * size,
                   (uint8_t *)c->values.data + (size_t)from * size, size);
        n++;
    }
    out->n = n;
    if (size) out->values.dim[0] = n;
    return SPARTA_OK;
}

static sparta_status check_range(const sp_coo *c)
{
    for (int d = 0; d < c->rank; d++)
        for (int64_t i = 0; i < c->n; i++)
            if (c->index[d][i] < 0 || c->index[d][i] >= c->dim[d])
                return sp_fail(c->cx, SPARTA_E_RANGE,
                               "entry %lld: the index %lld of dimension %d is not below its size %lld",
                               (long long)i, (long long)c->index[d][i], d, (long long)c->dim[d]);
    return SPARTA_OK;
}

sparta_status sp_coo_canonical(sp_coo *c)
{
    int64_t *order = NULL, *sorted = NULL;
    sp_coo made = {0};
    if (c->dense) return SPARTA_OK;
    SP_TRY(check_range(c));
    if (is_canonical(c)) return SPARTA_OK;
    order = sp_alloc_array(c->cx, (size_t)c->n, 2 * sizeof *order);
    SP_NEED(c->cx, order);
    sparta_status status = sort(c, order, &sorted);
    if (!status)
        status = sp_coo_alloc(c->cx, c->rank, c->dim, c->n, c->values.data ? &c->values.dtype : NULL, &made);
    if (!status) status = gather(c, sorted, &made);
    sp_free(c->cx, order);
    if (status) {
        sp_coo_free(&made);
        return status;
    }
    sp_coo_free(c);
    *c = made;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ dense */
