/* Sparsify: what stays of each line along the last axis (builtin.h); of three operands, which pairs of rows and columns do (route.h). An element is there unless it is 0, its magnitude is below attribute
 * above, it lies outside of the band, or a function of the caller's says so; where more are there than attribute keep allows, the largest magnitudes
 * stay. */
#include "builtin/functions.h"
#include "builtin/route.h"
#include "builtin/view.h"
#include <math.h>
#include <stdlib.h>

typedef struct entry {
    double size;   /* its magnitude; infinite for a NaN, which `nan` puts before all */
    int64_t index; /* place in the line */
    bool nan;
} entry;

/* Largest first, equals by index. */
static int by_size(const void *a, const void *b)
{
    const entry *p = a, *q = b;
    if (p->nan != q->nan) return p->nan ? -1 : 1;
    if (!p->nan && p->size != q->size) return p->size > q->size ? -1 : 1;
    return (p->index > q->index) - (p->index < q->index);
}

void sp_sparsify_band(const sp_attrs *attrs, int64_t s, int64_t all, int64_t n, int64_t *from, int64_t *to)
{
    const int64_t left = sp_attr_int(attrs, "left", -1), right = sp_attr_int(attrs, "right", -1),
                  at = s + n - all;
    *from = left >= 0 && left < at ? SP_MIN(at - left, n) : 0;
    *to = right >= 0 && right < n - at ? SP_MAX(at + right + 1, *from) : n;
    if (*to > n) *to = n;
}

/* Those that are there, of elements [from, to), by index; how many. */
static int64_t find(const sparta_tensor *x, int64_t start, double above, int64_t from, int64_t to,
                    entry *line)
{
    const int last = x->rank - 1;
    int64_t n = 0;
    for (int64_t i = from; i < to; i++) {
        const double size = fabs(sp_element_get(x->dtype, x->data, start + i * x->stride[last]));
        if (size != 0 && !(size < above)) line[n++] = (entry){size, i, isnan(size)};
    }
    return n;
}

/* What a function of the caller's leaves of the elements listed. */
typedef struct asking {
    const sp_line_function *function; /* NULL: none is asked */
    float *value;
    uint8_t *keep;
} asking;

static sparta_status ask(sparta_ctx *cx, const asking *a, const sparta_tensor *x, int64_t start, entry *line,
                         int64_t *n)
{
    const int last = x->rank - 1;
    int64_t left = 0;
    for (int64_t i = 0; i < x->dim[last]; i++) {
        a->value[i] = (float)sp_element_get(x->dtype, x->data, start + i * x->stride[last]);
        a->keep[i] = 1;
    }
    SP_TRY(sp_line_function_call(cx, a->function, a->value, x->dim[last], a->keep));
    for (int64_t i = 0; i < *n; i++)
        if (a->keep[line[i].index]) line[left++] = line[i];
    *n = left;
    return SPARTA_OK;
}

static sparta_status begin_asking(sparta_ctx *cx, const sp_attrs *attrs, int64_t n, asking *out)
{
    const char *name = sp_attr_string(attrs, "function", "");
    *out = (asking){0};
    if (!*name) return SPARTA_OK;
    SP_TRY(sp_line_function_find(cx, name, &out->function));
    out->value = sp_alloc_array(cx, (size_t)n + 1, sizeof *out->value);
    out->keep = sp_alloc_array(cx, (size_t)n + 1, sizeof *out->keep);
    return out->value && out->keep ? SPARTA_OK : sp_ctx_status(cx);
}

/* ------------------------------------------------------------------ pairs */

/* Matrix i of a tensor, counted over all dims but the last two. */
static sparta_tensor matrix_of(const sparta_tensor *t, int64_t i)
{
    int64_t at = 0;
    for (int d = t->rank - 3; d >= 0; d--) {
        at += i % t->dim[d] * t->stride[d];
        i /= t->dim[d];
    }
    sparta_tensor all = sp_view_tail(t, t->rank - 2);
    return sp_view_at(&all, at);
}

static sparta_tensor turned(sparta_tensor m)
{
    return (sparta_tensor){.dtype = m.dtype,
                           .rank = 2,
                           .dim = {m.dim[1], m.dim[0]},
                           .stride = {m.stride[1], m.stride[0]},
                           .data = m.data};
}

static int64_t matrices(const sparta_tensor *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->rank - 2; d++) n *= t->dim[d];
    return n;
}

/* x where it is listed, -inf elsewhere. */
static void put_listed(const sp_route *r, const sparta_tensor *y)
{
    const sparta_tensor *x = &r->seen;
    for (int64_t s = 0; s < x->dim[0]; s++) {
        const int32_t *list = r->list + s / r->block * r->room;
        for (int64_t t = 0; t < x->dim[1]; t++)
            sp_element_set(y->dtype, y->data, s * y->stride[0] + t * y->stride[1], -INFINITY);
        for (int64_t i = 0; i < r->room && list[i] >= 0; i++)
            for (int64_t t = list[i] * r->block; t < SP_MIN(x->dim[1], (list[i] + 1) * r->block); t++)
                sp_builtin_move(y->data, s * y->stride[0] + t * y->stride[1], x->data,
                                s * x->stride[0] + t * x->stride[1], sparta_dtype_size(x->dtype));
    }
}

/* One matrix after the other. */
static sparta_status sparsify_pairs(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *q = &args->in[1], *k = &args->in[2], *y = &args->out[0];
    const int64_t n = x->rank < 2 ? 0 : matrices(x);
    SP_TRY(sp_route_check(cx, "Sparsify", args->attrs));
    if (x->rank < 2 || q->rank < 2 || k->rank < 2 || matrices(q) != n || matrices(k) != n ||
        q->dim[q->rank - 2] != x->dim[x->rank - 2] || k->dim[k->rank - 1] != x->dim[x->rank - 1] ||
        q->dim[q->rank - 1] != k->dim[k->rank - 2])
        return sp_fail(cx, SPARTA_E_SHAPE, "Sparsify: rows and columns of x are not those of q and k");
    if (!n) return SPARTA_OK;
    sp_route r = {.left = -1,
                  .right = -1,
                  .block = sp_attr_int(args->attrs, "block", 1),
                  .keep = sp_attr_int(args->attrs, "keep", 0),
                  .own = sp_attr_int(args->attrs, "own", 0) != 0};
    const int64_t columns = sp_route_blocks(x->dim[x->rank - 1], r.block),
                  rows = sp_route_blocks(x->dim[x->rank - 2], r.block);
    size_t bytes;
    r.room = r.keep < columns ? SP_MIN(r.keep + r.own, columns) : columns;
    r.q = matrix_of(q, 0), r.k = turned(matrix_of(k, 0));
    SP_TRY(sp_route_scratch(cx, &r, &bytes));
    void *scratch = sp_alloc_array(cx, bytes + 1, 1);
    r.list = scratch ? sp_alloc_array(cx, (size_t)rows + 1, (size_t)(r.room + 1) * sizeof *r.list) : NULL;
    sparta_status status = r.list ? SPARTA_OK : sp_ctx_status(cx);
    for (int64_t i = 0; i < n && !status; i++) {
        const sparta_tensor to = matrix_of(y, i);
        r.q = matrix_of(q, i), r.k = turned(matrix_of(k, i)), r.seen = matrix_of(x, i);
        sp_route_head(&r, scratch);
        put_listed(&r, &to);
        status = sp_check_cancel(cx);
    }
    sp_free(cx, r.list), sp_free(cx, scratch);
    return status;
}

sparta_status sp_builtin_Sparsify(sparta_ctx *cx, const sp_op_args *args)
{
    if (sp_op_has(args, 1) && sp_op_has(args, 2)) return sparsify_pairs(cx, args);
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    const int64_t keep = sp_attr_int(args->attrs, "keep", 0);
    const double above = (double)sp_attr_float(args->attrs, "above", 0);
    const size_t size = sparta_dtype_size(x->dtype);
    const int last = x->rank - 1;
    if (last < 0) return sp_fail(cx, SPARTA_E_SHAPE, "Sparsify: a number has no line of elements");
    entry *line = sp_alloc_array(cx, (size_t)x->dim[last] + 1, sizeof *line);
    SP_NEED(cx, line);
    sparta_tensor from = sp_view_drop(x, last, 0), to = sp_view_drop(y, last, 0);
    const sparta_tensor *both[] = {&from, &to};
    asking asks;
    sparta_status status = begin_asking(cx, args->attrs, x->dim[last], &asks);
    for (sp_cursor w = sp_cursor_begin(from.rank, from.dim, 2, both); w.more && !status; sp_cursor_next(&w)) {
        int64_t first, end;
        sp_sparsify_band(args->attrs, last ? w.index[last - 1] : 0, last ? x->dim[last - 1] : 1, x->dim[last],
                         &first, &end);
        int64_t n = find(x, w.at[0], above, first, end, line);
        if (asks.function) status = ask(cx, &asks, x, w.at[0], line, &n);
        if (status) break;
        if (keep > 0 && n > keep) {
            qsort(line, (size_t)n, sizeof *line, by_size);
            n = keep;
        }
        for (int64_t i = 0; i < x->dim[last]; i++)
            sp_element_set(y->dtype, y->data, w.at[1] + i * y->stride[last], 0);
        for (int64_t i = 0; i < n; i++)
            sp_builtin_move(y->data, w.at[1] + line[i].index * y->stride[last], x->data,
                            w.at[0] + line[i].index * x->stride[last], size);
        status = sp_check_cancel(cx);
    }
    sp_free(cx, asks.value), sp_free(cx, asks.keep);
    sp_free(cx, line);
    return status;
}
