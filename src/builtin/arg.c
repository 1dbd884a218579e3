/* The loop of arg.h. */
#include "builtin/arg.h"

int sp_element_compare(sparta_dtype dtype, const void *data, int64_t a, int64_t b)
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

/* A NaN is beyond every number in either direction. */
static bool is_nan(const sparta_tensor *t, int64_t at)
{
    double v = sp_dtype_is_float(t->dtype) ? sp_element_get(t->dtype, t->data, at) : 0;
    return v != v;
}

static bool beats(const sparta_tensor *x, int64_t a, int64_t b, bool largest, bool last)
{
    if (is_nan(x, a) || is_nan(x, b)) return is_nan(x, a) && (last || !is_nan(x, b));
    int order = sp_element_compare(x->dtype, x->data, a, b);
    return order == 0 ? last : largest ? order > 0 : order < 0;
}

sparta_status sp_builtin_arg(sparta_ctx *cx, const sp_op_args *args, const char *op, bool largest)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    bool last = sp_attr_int(args->attrs, "select_last_index", 0) != 0;
    int axis;
    SP_TRY(sp_builtin_axis(cx, op, sp_attr_int(args->attrs, "axis", 0), x->rank, &axis));
    sparta_tensor lines = sp_view_drop(x, axis, 0);
    const sparta_tensor *walked = &lines;
    int64_t step = x->stride[axis], i = 0, n = sparta_tensor_elements(y);
    if (x->dim[axis] == 0 && n > 0)
        return sp_fail(cx, SPARTA_E_RANGE, "%s: axis %d is empty; nothing is largest or smallest", op, axis);
    if (sparta_tensor_elements(&lines) != n || !sp_tensor_contiguous(y))
        return sp_fail(cx, SPARTA_E_SHAPE, "%s: %lld lines, and room for %lld indices", op,
                       (long long)sparta_tensor_elements(&lines), (long long)n);
    for (sp_walk w = sp_walk_begin(lines.rank, lines.dim, 1, &walked); n > 0 && w.more; sp_walk_next(&w)) {
        int64_t best = 0;
        for (int64_t k = 1; k < x->dim[axis]; k++)
            if (beats(x, w.at[0] + k * step, w.at[0] + best * step, largest, last)) best = k;
        sp_element_set_int(y->dtype, y->data, i++, best);
    }
    return SPARTA_OK;
}
