/* BatchNormalization: y = (x - mean[c]) / sqrt(variance[c] + epsilon) * scale[c] + bias[c] for each channel c, the second dim; the
 * statistics are inputs (inference). */
#include "builtin/view.h"
#include <math.h>

static double of_channel(const sparta_tensor *t, int64_t c)
{
    return sp_element_get(t->dtype, t->data, c * t->stride[0]);
}

sparta_status sp_builtin_BatchNormalization(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *in = args->in, *x = &in[0], *y = &args->out[0];
    const double epsilon = sp_attr_float(args->attrs, "epsilon", 1e-5f);
    for (int64_t c = 0; c < x->dim[1]; c++) {
        SP_TRY(sp_check_cancel(cx));
        double factor = of_channel(&in[1], c) / sqrt(of_channel(&in[4], c) + epsilon);
        double bias = of_channel(&in[2], c), mean = of_channel(&in[3], c);
        sparta_tensor from = sp_view_drop(x, 1, c), to = sp_view_drop(y, 1, c);
        const sparta_tensor *both[] = {&from, &to};
        for (sp_walk w = sp_walk_begin(from.rank, from.dim, 2, both); w.more; sp_walk_next(&w))
            sp_element_set(y->dtype, to.data, w.at[1],
                           (sp_element_get(x->dtype, from.data, w.at[0]) - mean) * factor + bias);
    }
    return SPARTA_OK;
}
