/* Transpose: y[i[perm[0]], i[perm[1]], ...] = x[i[0], i[1], ...]; without attribute perm the dims are
 * reversed. */
#include "builtin/view.h"

sparta_status sp_builtin_Transpose(sparta_ctx *cx, const sp_op_args *args)
{
    const sp_attr *perm = sp_attr_find(args->attrs, "perm");
    sparta_tensor view = args->in[0];
    if (perm && perm->n != view.rank)
        return sp_fail(cx, SPARTA_E_SHAPE, "Transpose: perm has %d axes, x %d", perm->n, view.rank);
    for (int i = 0; i < view.rank; i++) {
        int from = view.rank - 1 - i;
        if (perm) SP_TRY(sp_builtin_axis(cx, "Transpose", perm->ints[i], view.rank, &from));
        view.dim[i] = args->in[0].dim[from];
        view.stride[i] = args->in[0].stride[from];
    }
    return sp_tensor_copy(cx, &view, &args->out[0]);
}
