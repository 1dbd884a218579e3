/* Pad: y is x with as many elements added on both sides of every axis as the second input says (negative: taken away), all
 * "before" and then all "after", of all axes or of those in the fourth input. Attribute mode says what is added:
 *
 *     x = a b c d      constant  k k k a b c d k k      edge     a a a a b c d d d
 *                      reflect   d c b a b c d c b      wrap     b c d a b c d a b
 */
#include "builtin/view.h"
#include <string.h>

typedef enum { CONSTANT, REFLECT, EDGE, WRAP } mode;

static sparta_status read_mode(sparta_ctx *cx, const sp_attrs *attrs, mode *out)
{
    static const char *const names[] = {"constant", "reflect", "edge", "wrap"};
    const char *said = sp_attr_string(attrs, "mode", "constant");
    for (int i = 0; i < 4; i++)
        if (!strcmp(names[i], said)) {
            *out = (mode)i;
            return SPARTA_OK;
        }
    return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                   "Pad: mode is \"%.40s\"; it must be constant, reflect, edge or wrap", said);
}

static int64_t element(const sparta_tensor *t, int64_t i)
{
    return sp_element_get_int(t->dtype, t->data, t->rank ? i * t->stride[0] : 0);
}

/* The padding of every axis; E_SHAPE where it does not give the dims of y. */
static sparta_status read_pads(sparta_ctx *cx, const sp_op_args *args, int64_t *before, mode m)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    const int64_t n = sp_op_has(args, 3) ? sparta_tensor_elements(&args->in[3]) : x->rank;
    int64_t after[SPARTA_RANK] = {0};
    if (sparta_tensor_elements(&args->in[1]) != 2 * n)
        return sp_fail(cx, SPARTA_E_SHAPE, "Pad: %lld pads for %lld axes; two for each are needed",
                       (long long)sparta_tensor_elements(&args->in[1]), (long long)n);
    for (int64_t i = 0; i < n; i++) {
        int axis;
        SP_TRY(sp_builtin_axis(cx, "Pad", sp_op_has(args, 3) ? element(&args->in[3], i) : i, x->rank, &axis));
        before[axis] = element(&args->in[1], i);
        after[axis] = element(&args->in[1], n + i);
    }
    for (int i = 0; i < x->rank; i++) {
        int64_t size;
        const bool turns = (before[i] < 0 && after[i] > 0) || (before[i] > 0 && after[i] < 0);
        if (m != CONSTANT && turns)
            return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                           "Pad: axis %d loses elements on one side and gains some on the other, which mode "
                           "%s leaves open; use a Slice and a Pad",
                           i, sp_attr_string(args->attrs, "mode", ""));
        if (before[i] < -INT64_MAX / 4 || !sp_int_add(x->dim[i], before[i], &size) ||
            !sp_int_add(size, after[i], &size) || size != y->dim[i])
            return sp_fail(cx, SPARTA_E_SHAPE, "Pad: axis %d of %lld with pads %lld and %lld is no %lld", i,
                           (long long)x->dim[i], (long long)before[i], (long long)after[i],
                           (long long)y->dim[i]);
        if (m != CONSTANT && x->dim[i] == 0 && y->dim[i] > 0)
            return sp_fail(cx, SPARTA_E_SHAPE, "Pad: axis %d is empty; there is nothing to repeat", i);
    }
    return SPARTA_OK;
}

/* The index of x that stands at i, which may be outside of [0, n); -1: the constant. */
static int64_t source(mode m, int64_t i, int64_t n)
{
    if (i >= 0 && i < n) return i;
    if (m == CONSTANT) return -1;
    if (m == EDGE || n == 1) return i < 0 ? 0 : n - 1;
    const int64_t period = m == WRAP ? n : 2 * (n - 1);
    i %= period;
    if (i < 0) i += period;
    return i < n ? i : period - i;
}

/* y[first, first + n) along `axis` of `part` becomes the constant. */
static sparta_status put_constant(sparta_ctx *cx, const sparta_tensor *part, int axis, int64_t first,
                                  int64_t n, const void *constant)
{
    const sparta_tensor to = sp_view_part(part, axis, first, n);
    sparta_tensor from = to;
    from.data = (void *)constant;
    for (int i = 0; i < from.rank; i++) from.stride[i] = 0;
    return n > 0 ? sp_tensor_copy(cx, &from, &to) : SPARTA_OK;
}

/* What is added along one axis; before[axis] .. before[axis] + n of it is there already. */
static sparta_status pad_axis(sparta_ctx *cx, const sparta_tensor *part, int axis, int64_t before, int64_t n,
                              mode m, const void *constant)
{
    const int64_t all = part->dim[axis], first = SP_MAX(before, (int64_t)0), end = SP_MIN(before + n, all);
    if (m == CONSTANT && end <= first) return put_constant(cx, part, axis, 0, all, constant);
    if (m == CONSTANT) {
        SP_TRY(put_constant(cx, part, axis, 0, first, constant));
        return put_constant(cx, part, axis, end, all - end, constant);
    }
    for (int64_t i = 0; i < all; i++) {
        if (i >= before && i < before + n) continue;
        const sparta_tensor from = sp_view_part(part, axis, before + source(m, i - before, n), 1),
                            to = sp_view_part(part, axis, i, 1);
        SP_TRY(sp_tensor_copy(cx, &from, &to));
    }
    return SPARTA_OK;
}

/* x where it stays, then the axes from the last on: what is added along one is as long in the later axes as y, and in the earlier ones
 * as what stays of x. */
sparta_status sp_builtin_Pad(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    int64_t before[SPARTA_RANK] = {0}, zero = 0;
    mode m = CONSTANT;
    SP_TRY(read_mode(cx, args->attrs, &m));
    SP_TRY(read_pads(cx, args, before, m));
    if (sparta_tensor_elements(y) == 0) return SPARTA_OK;
    /* 0 has the same bytes in every type. */
    const void *constant = sp_op_has(args, 2) ? args->in[2].data : &zero;
    sparta_tensor from = *x, part = *y; /* part: what stays of x, in y */
    for (int i = 0; i < x->rank; i++) {
        const int64_t first = SP_MAX(before[i], (int64_t)0), end = SP_MIN(before[i] + x->dim[i], y->dim[i]);
        from = sp_view_part(&from, i, first - before[i], SP_MAX(end - first, (int64_t)0));
        part = sp_view_part(&part, i, first, SP_MAX(end - first, (int64_t)0));
    }
    SP_TRY(sp_tensor_copy(cx, &from, &part));
    for (int i = x->rank - 1; i >= 0; i--) {
        sparta_tensor wide = *y;
        for (int k = 0; k < i; k++) wide = sp_view_part(&wide, k, SP_MAX(before[k], (int64_t)0), part.dim[k]);
        SP_TRY(pad_axis(cx, &wide, i, before[i], x->dim[i], m, constant));
    }
    return SPARTA_OK;
}
