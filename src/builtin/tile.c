/* Tile: y[i] = x[i mod size of x], along every dim; the second input says how often x repeats along each. */
#include "builtin/view.h"

sparta_status sp_builtin_Tile(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *out = &args->out[0];
    const int64_t size = (int64_t)sparta_dtype_size(x->dtype);
    sp_strides d = {.rank = 2 * x->rank}; /* (times, size of x) of each dim */
    if (sparta_tensor_elements(out) == 0) return SPARTA_OK;
    for (int i = 0; i < x->rank; i++) {
        if (x->dim[i] < 1 || out->dim[i] % x->dim[i])
            return sp_fail(cx, SPARTA_E_SHAPE, "Tile: dim %d is %lld, which is no multiple of %lld", i,
                           (long long)out->dim[i], (long long)x->dim[i]);
        d.dim[2 * i] = out->dim[i] / x->dim[i];
        d.to[2 * i] = out->stride[i] * x->dim[i] * size;
        d.dim[2 * i + 1] = x->dim[i];
        d.from[2 * i + 1] = x->stride[i] * size;
        d.to[2 * i + 1] = out->stride[i] * size;
    }
    return sp_strided_copy(cx, &d, (size_t)size, x->data, out->data);
}
