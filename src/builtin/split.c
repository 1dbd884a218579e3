/* Split: x cut along attribute axis (0); the shape rule settled how long each part is, from the second input
 * or from attribute num_outputs. */
#include "builtin/view.h"

sparta_status sp_builtin_Split(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0];
    int axis;
    SP_TRY(sp_builtin_axis(cx, "Split", sp_attr_int(args->attrs, "axis", 0), x->rank, &axis));
    int64_t at = 0;
    for (int i = 0; i < args->n_out; i++) {
        int64_t n = args->out[i].dim[axis];
        if (n > x->dim[axis] - at)
            return sp_fail(cx, SPARTA_E_SHAPE, "Split: the parts are longer than the whole");
        sparta_tensor part = sp_view_part(x, axis, at, n);
        SP_TRY(sp_tensor_copy(cx, &part, &args->out[i]));
        at += n;
    }
    return SPARTA_OK;
}
