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

sparta_status sp_builtin_Pad(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    const size_t size = sparta_dtype_size(x->dtype);
    int64_t before[SPARTA_RANK] = {0}, zero = 0;
    mode m = CONSTANT;
    SP_TRY(read_mode(cx, args->attrs, &m));
    SP_TRY(read_pads(cx, args, before, m));
    /* 0 has the same bytes in every type. */
    const void *constant = sp_op_has(args, 2) ? args->in[2].data : &zero;
    for (sp_walk w = sp_walk_begin(y->rank, y->dim, 1, &y); w.more; sp_walk_next(&w)) {
        int64_t from = 0;
        bool inside = true;
        for (int i = 0; i < y->rank; i++) {
            int64_t at = source(m, w.index[i] - before[i], x->dim[i]);
            inside &= at >= 0;
            from += at * x->stride[i];
        }
        sp_builtin_move(y->data, w.at[0], inside ? x->data : constant, inside ? from : 0, size);
    }
    return SPARTA_OK;
}
