/* Concat: the inputs one after the other along attribute axis. */
#include "builtin/view.h"

sparta_status sp_builtin_Concat(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *out = &args->out[0];
    int axis;
    SP_TRY(sp_builtin_axis(cx, "Concat", sp_attr_int(args->attrs, "axis", 0), out->rank, &axis));
    int64_t at = 0;
    for (int i = 0; i < args->n_in; i++) {
        int64_t n = args->in[i].dim[axis];
        if (n > out->dim[axis] - at)
            return sp_fail(cx, SPARTA_E_SHAPE, "Concat: the parts are longer than the whole");
        sparta_tensor part = sp_view_part(out, axis, at, n);
        SP_TRY(sp_tensor_copy(cx, &args->in[i], &part));
        at += n;
    }
    return SPARTA_OK;
}
