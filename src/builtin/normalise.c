/* The normalisations, in double: y = (x - mean) / sqrt(variance + epsilon) * scale + bias. They differ in what mean and variance are taken of:
 *
 *     LayerNormalization      the dims from attribute axis (-1) on; further outputs: the mean and 1 / sqrt(variance + epsilon)
 *     RMSNormalization        the same, with a mean of 0 and no bias; y has the type of scale
 *     GroupNormalization      groups of neighbouring channels of each image (in the form of opset 21)
 *     InstanceNormalization   every channel of each image
 *     BatchNormalization      nothing: they are inputs, one of each channel (inference)
 */
#include "builtin/view.h"
#include <math.h>

typedef struct piece {               /* what is normalised alike: views of one shape */
    sparta_tensor x, scale, bias, y; /* bias of rank -1: none */
    double mean, inverse;            /* inverse: 1 / sqrt(variance + epsilon) */
} piece;

static void measure(piece *p, bool centred, double epsilon)
{
    const sparta_tensor *x = &p->x;
    double n = (double)sparta_tensor_elements(x), sum = 0, squares = 0;
    for (sp_cursor w = sp_cursor_begin(x->rank, x->dim, 1, &x); centred && w.more; sp_cursor_next(&w))
        sum += sp_element_get(x->dtype, x->data, w.at[0]);
    p->mean = centred ? sum / n : 0;
    for (sp_cursor w = sp_cursor_begin(x->rank, x->dim, 1, &x); w.more; sp_cursor_next(&w)) {
        double d = sp_element_get(x->dtype, x->data, w.at[0]) - p->mean;
        squares += d * d;
    }
    p->inverse = 1 / sqrt(squares / n + epsilon);
}

static void normalise(const piece *p)
{
    const bool biased = p->bias.rank >= 0;
    const sparta_tensor *all[] = {&p->x, &p->scale, &p->y, biased ? &p->bias : &p->scale};
    for (sp_cursor w = sp_cursor_begin(p->x.rank, p->x.dim, 4, all); w.more; sp_cursor_next(&w)) {
        double v = (sp_element_get(p->x.dtype, p->x.data, w.at[0]) - p->mean) * p->inverse;
        v *= sp_element_get(p->scale.dtype, p->scale.data, w.at[1]);
        if (biased) v += sp_element_get(p->bias.dtype, p->bias.data, w.at[3]);
        sp_element_set(p->y.dtype, p->y.data, w.at[2], v);
    }
}

static double epsilon_of(const sp_op_args *args)
{
    return sp_attr_float(args->attrs, "epsilon", 1e-5f);
}

/* ------------------------------------------------------------------ over the last dims */
/* The part of `t` that belongs to the row at element offset `at`. */
static sparta_tensor part(const sparta_tensor *t, int64_t at, int axis)
{
    sparta_tensor v = sp_view_at(t, at);
    return sp_view_tail(&v, axis);
}

static sparta_status by_rows(sparta_ctx *cx, const sp_op_args *args, const char *op, bool centred)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    const bool biased = sp_op_has(args, 2);
    sparta_tensor scale, bias = {.rank = -1};
    int axis;
    SP_TRY(sp_builtin_axis(cx, op, sp_attr_int(args->attrs, "axis", -1), x->rank, &axis));
    SP_TRY(sp_tensor_broadcast(cx, &args->in[1], x->rank, x->dim, &scale));
    if (biased) SP_TRY(sp_tensor_broadcast(cx, &args->in[2], x->rank, x->dim, &bias));
    const sparta_tensor *all[] = {x, &scale, biased ? &bias : x, y};
    int64_t i = 0; /* mean and inverse are row-major, one for each row */
    for (sp_cursor w = sp_cursor_begin(axis, x->dim, 4, all); w.more; sp_cursor_next(&w), i++) {
        piece p = {part(x, w.at[0], axis), part(&scale, w.at[1], axis), bias, part(y, w.at[3], axis), 0, 0};
        if (biased) p.bias = part(&bias, w.at[2], axis);
        measure(&p, centred, epsilon_of(args));
        normalise(&p);
        for (int o = 1; o < args->n_out; o++)
            if (args->out[o].rank >= 0)
                sp_element_set(args->out[o].dtype, args->out[o].data, i, o == 1 ? p.mean : p.inverse);
    }
    return SPARTA_OK;
}

SP_REFERENCE(LayerNormalization, by_rows(cx, args, "LayerNormalization", true))
SP_REFERENCE(RMSNormalization, by_rows(cx, args, "RMSNormalization", false))

/* ------------------------------------------------------------------ by channels, the second dim */
/* Elements of t (C) from c on, as often as x (channels, ...) has elements of each. */
static sparta_tensor of_channels(const sparta_tensor *t, int64_t c, const sparta_tensor *x)
{
    sparta_tensor v = *x;
    v.dtype = t->dtype;
    v.data = sp_view_at(t, c * t->stride[0]).data;
    for (int i = 0; i < v.rank; i++) v.stride[i] = i ? 0 : t->stride[0];
    return v;
}

/* x (N, C, ...), scale and bias (C); groups divides C. */
static sparta_status by_groups(sparta_ctx *cx, const sp_op_args *args, int64_t groups)
{
    const sparta_tensor *in = args->in, *x = &in[0], *y = &args->out[0];
    if (groups < 1 || x->dim[1] % groups)
        return sp_fail(cx, SPARTA_E_SHAPE, "%lld channels do not make %lld groups", (long long)x->dim[1],
                       (long long)groups);
    const int64_t each = x->dim[1] / groups;
    if (sp_op_empty(args)) return SPARTA_OK; /* groups of 0 channels may be 2^62 */
    for (int64_t n = 0; n < x->dim[0]; n++)
        for (int64_t c = 0; c < x->dim[1]; c += each) {
            SP_TRY(sp_check_cancel(cx));
            sparta_tensor from = sp_view_drop(x, 0, n), to = sp_view_drop(y, 0, n);
            from = sp_view_part(&from, 0, c, each);
            piece p = {from,
                       of_channels(&in[1], c, &from),
                       of_channels(&in[2], c, &from),
                       sp_view_part(&to, 0, c, each),
                       0,
                       0};
            measure(&p, true, epsilon_of(args));
            normalise(&p);
        }
    return SPARTA_OK;
}

SP_REFERENCE(GroupNormalization, by_groups(cx, args, sp_attr_int(args->attrs, "num_groups", 1)))
SP_REFERENCE(InstanceNormalization, args->in[0].dim[1] ? by_groups(cx, args, args->in[0].dim[1]) : SPARTA_OK)

static double of_channel(const sparta_tensor *t, int64_t c)
{
    return sp_element_get(t->dtype, t->data, c * t->stride[0]);
}

sparta_status sp_builtin_BatchNormalization(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *in = args->in, *x = &in[0], *y = &args->out[0];
    for (int64_t c = 0; c < x->dim[1]; c++) {
        SP_TRY(sp_check_cancel(cx));
        const double factor = of_channel(&in[1], c) / sqrt(of_channel(&in[4], c) + epsilon_of(args));
        const double bias = of_channel(&in[2], c), mean = of_channel(&in[3], c);
        sparta_tensor from = sp_view_drop(x, 1, c), to = sp_view_drop(y, 1, c);
        const sparta_tensor *both[] = {&from, &to};
        for (sp_cursor w = sp_cursor_begin(from.rank, from.dim, 2, both); w.more; sp_cursor_next(&w))
            sp_element_set(y->dtype, to.data, w.at[1],
                           (sp_element_get(x->dtype, from.data, w.at[0]) - mean) * factor + bias);
    }
    return SPARTA_OK;
}
