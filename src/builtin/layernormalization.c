/* LayerNormalization: y = (x - mean) / sqrt(variance + epsilon) * scale + bias, mean and variance over the
 * dims from attribute axis (-1) on, in double. Further outputs: the mean and 1 / sqrt(variance + epsilon). */
#include "builtin/view.h"
#include <math.h>

typedef struct row { /* the normalised dims of one row */
    sparta_tensor x, scale, bias, y;
    bool has_bias;
    double epsilon, mean, inverse;
} row;

static void measure(row *r)
{
    const sparta_tensor *x = &r->x;
    double n = (double)sparta_tensor_elements(x), sum = 0, squares = 0;
    for (sp_walk w = sp_walk_begin(x->rank, x->dim, 1, &x); w.more; sp_walk_next(&w))
        sum += sp_element_get(x->dtype, x->data, w.at[0]);
    r->mean = sum / n;
    for (sp_walk w = sp_walk_begin(x->rank, x->dim, 1, &x); w.more; sp_walk_next(&w)) {
        double d = sp_element_get(x->dtype, x->data, w.at[0]) - r->mean;
        squares += d * d;
    }
    r->inverse = 1 / sqrt(squares / n + r->epsilon);
}

static void normalise(const row *r)
{
    const sparta_tensor *all[] = {&r->x, &r->scale, &r->y, r->has_bias ? &r->bias : &r->scale};
    for (sp_walk w = sp_walk_begin(r->x.rank, r->x.dim, 4, all); w.more; sp_walk_next(&w)) {
        double v = (sp_element_get(r->x.dtype, r->x.data, w.at[0]) - r->mean) * r->inverse;
        v *= sp_element_get(r->scale.dtype, r->scale.data, w.at[1]);
        if (r->has_bias) v += sp_element_get(r->bias.dtype, r->bias.data, w.at[3]);
        sp_element_set(r->y.dtype, r->y.data, w.at[2], v);
    }
}

/* The part of `t` that belongs to the row at element offset `at`. */
static sparta_tensor part(const sparta_tensor *t, int64_t at, int axis)
{
    sparta_tensor v = sp_view_at(t, at);
    return sp_view_tail(&v, axis);
}

sparta_status sp_builtin_LayerNormalization(sparta_ctx *cx, const sp_op_args *args)
{
    sparta_tensor x = args->in[0], y = args->out[0], scale, bias = x;
    int axis;
    SP_TRY(sp_builtin_axis(cx, "LayerNormalization", sp_attr_int(args->attrs, "axis", -1), x.rank, &axis));
    SP_TRY(sp_tensor_broadcast(cx, &args->in[1], x.rank, x.dim, &scale));
    if (sp_op_has(args, 2)) SP_TRY(sp_tensor_broadcast(cx, &args->in[2], x.rank, x.dim, &bias));
    row r = {.has_bias = sp_op_has(args, 2), .epsilon = sp_attr_float(args->attrs, "epsilon", 1e-5f)};
    const sparta_tensor *all[] = {&x, &scale, &bias, &y};
    int64_t i = 0; /* mean and inverse are row-major, one for each row */
    for (sp_walk w = sp_walk_begin(axis, x.dim, 4, all); w.more; sp_walk_next(&w), i++) {
        r.x = part(&x, w.at[0], axis);
        r.scale = part(&scale, w.at[1], axis);
        r.bias = part(&bias, w.at[2], axis);
        r.y = part(&y, w.at[3], axis);
        measure(&r);
        normalise(&r);
        if (args->n_out > 1 && args->out[1].rank >= 0)
            sp_element_set(args->out[1].dtype, args->out[1].data, i, r.mean);
        if (args->n_out > 2 && args->out[2].rank >= 0)
            sp_element_set(args->out[2].dtype, args->out[2].data, i, r.inverse);
    }
    return SPARTA_OK;
}
