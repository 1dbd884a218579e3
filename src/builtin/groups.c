/* InstanceNormalization and GroupNormalization: mean and variance over groups of neighbouring channels of each image, then scale[c] and
 * bias[c] (GroupNormalization in the form of opset 21). */
#include "builtin/view.h"
#include <math.h>

static void measure(const sparta_tensor *x, double epsilon, double *mean, double *inverse)
{
    double n = (double)sparta_tensor_elements(x), sum = 0, squares = 0;
    for (sp_walk w = sp_walk_begin(x->rank, x->dim, 1, &x); w.more; sp_walk_next(&w))
        sum += sp_element_get(x->dtype, x->data, w.at[0]);
    *mean = sum / n;
    for (sp_walk w = sp_walk_begin(x->rank, x->dim, 1, &x); w.more; sp_walk_next(&w)) {
        double d = sp_element_get(x->dtype, x->data, w.at[0]) - *mean;
        squares += d * d;
    }
    *inverse = 1 / sqrt(squares / n + epsilon);
}

/* One group of one image: x and y (channels, ...), scale and bias (channels). */
static void normalise(const sparta_tensor *x, const sparta_tensor *scale, const sparta_tensor *bias,
                      double epsilon, const sparta_tensor *y)
{
    double mean, inverse;
    const sparta_tensor *both[] = {x, y};
    measure(x, epsilon, &mean, &inverse);
    for (sp_walk w = sp_walk_begin(x->rank, x->dim, 2, both); w.more; sp_walk_next(&w)) {
        double v = (sp_element_get(x->dtype, x->data, w.at[0]) - mean) * inverse;
        v *= sp_element_get(scale->dtype, scale->data, w.index[0] * scale->stride[0]);
        v += sp_element_get(bias->dtype, bias->data, w.index[0] * bias->stride[0]);
        sp_element_set(y->dtype, y->data, w.at[1], v);
    }
}

/* y = (x - mean) / sqrt(variance + epsilon) * scale[c] + bias[c]; x (N, C, ...), statistics over each of `groups` runs of channels of
 * each n, in double. groups divides C. */
static sparta_status by_groups(sparta_ctx *cx, const sp_op_args *args, int64_t groups)
{
    const sparta_tensor *in = args->in, *x = &in[0], *y = &args->out[0];
    const double epsilon = sp_attr_float(args->attrs, "epsilon", 1e-5f);
    if (groups < 1 || x->dim[1] % groups)
        return sp_fail(cx, SPARTA_E_SHAPE, "%lld channels do not make %lld groups", (long long)x->dim[1],
                       (long long)groups);
    const int64_t each = x->dim[1] / groups;
    if (sp_op_empty(args)) return SPARTA_OK; /* groups of 0 channels may be 2^62 */
    for (int64_t n = 0; n < x->dim[0]; n++)
        for (int64_t g = 0; g < groups; g++) {
            SP_TRY(sp_check_cancel(cx));
            sparta_tensor from = sp_view_drop(x, 0, n), to = sp_view_drop(y, 0, n);
            from = sp_view_part(&from, 0, g * each, each);
            to = sp_view_part(&to, 0, g * each, each);
            sparta_tensor scale = sp_view_part(&in[1], 0, g * each, each),
                          bias = sp_view_part(&in[2], 0, g * each, each);
            if (sparta_tensor_elements(&from)) normalise(&from, &scale, &bias, epsilon, &to);
        }
    return SPARTA_OK;
}

sparta_status sp_builtin_GroupNormalization(sparta_ctx *cx, const sp_op_args *args)
{
    return by_groups(cx, args, sp_attr_int(args->attrs, "num_groups", 1));
}

/* Every channel is a group. */
sparta_status sp_builtin_InstanceNormalization(sparta_ctx *cx, const sp_op_args *args)
{
    return args->in[0].dim[1] ? by_groups(cx, args, args->in[0].dim[1]) : SPARTA_OK;
}
