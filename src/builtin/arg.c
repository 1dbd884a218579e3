/* Where a line along an axis has its extremes: ArgMax, ArgMin and TopK. A NaN is beyond every number, as in NumPy. */
#include "builtin/view.h"
#include <stdlib.h>

/* Order of two elements of one tensor: below 0, 0 or above; NaNs equal each other and are above all. */
static int compare(sparta_dtype dtype, const void *data, int64_t a, int64_t b)
{
    if (sp_dtype_is_float(dtype)) {
        double x = sp_element_get(dtype, data, a), y = sp_element_get(dtype, data, b);
        if (x != x || y != y) return (x != x) - (y != y);
        return (x > y) - (x < y);
    }
    int64_t x = sp_element_get_int(dtype, data, a), y = sp_element_get_int(dtype, data, b);
    if (dtype == SPARTA_U64) return ((uint64_t)x > (uint64_t)y) - ((uint64_t)x < (uint64_t)y);
    return (x > y) - (x < y);
}

/* ------------------------------------------------------------------ one extreme */
/* A NaN is beyond every number in either direction. */
static bool is_nan(const sparta_tensor *t, int64_t at)
{
    double v = sp_dtype_is_float(t->dtype) ? sp_element_get(t->dtype, t->data, at) : 0;
    return v != v;
}

static bool beats(const sparta_tensor *x, int64_t a, int64_t b, bool largest, bool last)
{
    if (is_nan(x, a) || is_nan(x, b)) return is_nan(x, a) && (last || !is_nan(x, b));
    int order = compare(x->dtype, x->data, a, b);
    return order == 0 ? last : largest ? order > 0 : order < 0;
}

/* y = index of the largest (or smallest) element along attribute axis (0), the first of equals or with attribute select_last_index the
 * last. */
static sparta_status find_extreme(sparta_ctx *cx, const sp_op_args *args, const char *op, bool largest)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    bool last = sp_attr_int(args->attrs, "select_last_index", 0) != 0;
    int axis;
    SP_TRY(sp_builtin_axis(cx, op, sp_attr_int(args->attrs, "axis", 0), x->rank, &axis));
    sparta_tensor lines = sp_view_drop(x, axis, 0);
    const sparta_tensor *each = &lines;
    int64_t step = x->stride[axis], i = 0, n = sparta_tensor_elements(y);
    if (x->dim[axis] == 0 && n > 0)
        return sp_fail(cx, SPARTA_E_RANGE, "%s: axis %d is empty; nothing is largest or smallest", op, axis);
    if (sparta_tensor_elements(&lines) != n || !sp_tensor_contiguous(y))
        return sp_fail(cx, SPARTA_E_SHAPE, "%s: %lld lines, and room for %lld indices", op,
                       (long long)sparta_tensor_elements(&lines), (long long)n);
    for (sp_cursor w = sp_cursor_begin(lines.rank, lines.dim, 1, &each); n > 0 && w.more;
         sp_cursor_next(&w)) {
        int64_t best = 0;
        for (int64_t k = 1; k < x->dim[axis]; k++)
            if (beats(x, w.at[0] + k * step, w.at[0] + best * step, largest, last)) best = k;
        sp_element_set_int(y->dtype, y->data, i++, best);
    }
    return SPARTA_OK;
}

SP_REFERENCE(ArgMax, find_extreme(cx, args, "ArgMax", true))
SP_REFERENCE(ArgMin, find_extreme(cx, args, "ArgMin", false))

/* ------------------------------------------------------------------ TopK */
/* The k largest (attribute largest=0: smallest) elements of each line along attribute axis (-1), and their indices, in order, equals by
 * index. A NaN is larger than every number, as NumPy sorts. k is the second input. */
typedef struct entry {
    const sparta_tensor *x;
    int64_t at, index; /* element offset, place in the line */
    int sign;          /* 1: smallest first, -1: largest first */
} entry;

static int by_value(const void *a, const void *b)
{
    const entry *p = a, *q = b;
    int order = p->sign * compare(p->x->dtype, p->x->data, p->at, q->at);
    return order ? order : (p->index > q->index) - (p->index < q->index);
}

static void sort_line(entry *line, const sparta_tensor *x, int axis, int64_t start, int sign)
{
    for (int64_t i = 0; i < x->dim[axis]; i++) line[i] = (entry){x, start + i * x->stride[axis], i, sign};
    qsort(line, (size_t)x->dim[axis], sizeof *line, by_value);
}

static sparta_status find_k(sparta_ctx *cx, const sp_op_args *args, int axis, int64_t *out)
{
    int64_t k = sp_element_get_int(args->in[1].dtype, args->in[1].data, 0), n = args->in[0].dim[axis];
    if (k < 0 || k > n || k != args->out[0].dim[axis])
        return sp_fail(cx, SPARTA_E_RANGE, "TopK: k is %lld, axis %d has %lld elements and the result %lld",
                       (long long)k, axis, (long long)n, (long long)args->out[0].dim[axis]);
    *out = k;
    return SPARTA_OK;
}

sparta_status sp_builtin_TopK(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *values = &args->out[0];
    const sparta_tensor *indices = args->n_out > 1 ? &args->out[1] : NULL;
    int axis, sign = sp_attr_int(args->attrs, "largest", 1) ? -1 : 1;
    int64_t k = 0;
    SP_TRY(sp_builtin_axis(cx, "TopK", sp_attr_int(args->attrs, "axis", -1), x->rank, &axis));
    SP_TRY(find_k(cx, args, axis, &k));
    entry *line = sp_alloc_array(cx, (size_t)x->dim[axis], sizeof *line);
    SP_NEED(cx, line);
    sparta_tensor from = sp_view_drop(x, axis, 0), to = sp_view_drop(values, axis, 0);
    sparta_tensor at = sp_view_drop(indices ? indices : values, axis, 0);
    const sparta_tensor *all[] = {&from, &to, &at};
    size_t size = sparta_dtype_size(x->dtype);
    for (sp_cursor w = sp_cursor_begin(from.rank, from.dim, 3, all); k > 0 && w.more; sp_cursor_next(&w)) {
        sort_line(line, x, axis, w.at[0], sign);
        for (int64_t i = 0; i < k; i++) {
            sp_builtin_move(values->data, w.at[1] + i * values->stride[axis], x->data, line[i].at, size);
            if (indices)
                sp_element_set_int(indices->dtype, indices->data, w.at[2] + i * indices->stride[axis],
                                   line[i].index);
        }
    }
    sp_free(cx, line);
    return SPARTA_OK;
}
