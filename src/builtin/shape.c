/* Shape: the dims of x as i64, from attribute start (0) to attribute end (the rank), clamped. */
#include "builtin/view.h"

sparta_status sp_builtin_Shape(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *out = &args->out[0];
    int64_t first, n = sp_slice_count(x->rank, sp_attr_int(args->attrs, "start", 0),
                                      sp_attr_int(args->attrs, "end", x->rank), 1, &first);
    if (out->dim[0] != n)
        return sp_fail(cx, SPARTA_E_SHAPE, "Shape: %lld dims of rank %d asked for and room for %lld",
                       (long long)n, x->rank, (long long)out->dim[0]);
    for (int64_t i = 0; i < n; i++)
        sp_element_set_int(SPARTA_I64, out->data, i * out->stride[0], x->dim[first + i]);
    return SPARTA_OK;
}
