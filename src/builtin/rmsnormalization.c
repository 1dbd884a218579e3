/* RMSNormalization: y = x / sqrt(mean of x^2 + epsilon) * scale, the mean over the dims from attribute axis (-1) on, in
 * double (so that stash_type makes no difference). y has the type of scale. */
#include "builtin/view.h"
#include <math.h>

/* The part of `t` that belongs to the row at element offset `at`. */
static sparta_tensor part(const sparta_tensor *t, int64_t at, int axis)
{
    sparta_tensor v = sp_view_at(t, at);
    return sp_view_tail(&v, axis);
}

static void normalise(const sparta_tensor *x, const sparta_tensor *scale, const sparta_tensor *y,
                      double epsilon)
{
    const sparta_tensor *all[] = {x, scale, y};
    double n = (double)sparta_tensor_elements(x), squares = 0;
    for (sp_walk w = sp_walk_begin(x->rank, x->dim, 1, all); w.more; sp_walk_next(&w)) {
        double v = sp_element_get(x->dtype, x->data, w.at[0]);
        squares += v * v;
    }
    double inverse = 1 / sqrt(squares / n + epsilon);
    for (sp_walk w = sp_walk_begin(x->rank, x->dim, 3, all); w.more; sp_walk_next(&w))
        sp_element_set(y->dtype, y->data, w.at[2],
                       sp_element_get(x->dtype, x->data, w.at[0]) * inverse *
                           sp_element_get(scale->dtype, scale->data, w.at[1]));
}

sparta_status sp_builtin_RMSNormalization(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    sparta_tensor scale;
    int axis;
    SP_TRY(sp_builtin_axis(cx, "RMSNormalization", sp_attr_int(args->attrs, "axis", -1), x->rank, &axis));
    SP_TRY(sp_tensor_broadcast(cx, &args->in[1], x->rank, x->dim, &scale));
    const double epsilon = (double)sp_attr_float(args->attrs, "epsilon", 1e-5f);
    const sparta_tensor *all[] = {x, &scale, y};
    for (sp_walk w = sp_walk_begin(axis, x->dim, 3, all); w.more; sp_walk_next(&w)) {
        sparta_tensor row = part(x, w.at[0], axis), by = part(&scale, w.at[1], axis),
                      to = part(y, w.at[2], axis);
        normalise(&row, &by, &to, epsilon);
    }
    return SPARTA_OK;
}
