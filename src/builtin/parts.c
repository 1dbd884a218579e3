/* Concat: the inputs one after the other along attribute axis. Split: the input cut along it (0); the shape rule settled how long each part
 * is, from the second input or from attribute num_outputs. */
#include "builtin/view.h"

static sparta_status copy_parts(sparta_ctx *cx, const char *op, const sp_attrs *attrs,
                                const sparta_tensor *whole, int n, const sparta_tensor *part, bool join)
{
    int axis;
    int64_t at = 0;
    SP_TRY(sp_builtin_axis(cx, op, sp_attr_int(attrs, "axis", 0), whole->rank, &axis));
    for (int i = 0; i < n; at += part[i++].dim[axis]) {
        if (part[i].dim[axis] > whole->dim[axis] - at)
            return sp_fail(cx, SPARTA_E_SHAPE, "%s: the parts are longer than the whole", op);
        const sparta_tensor place = sp_view_part(whole, axis, at, part[i].dim[axis]);
        SP_TRY(join ? sp_tensor_copy(cx, &part[i], &place) : sp_tensor_copy(cx, &place, &part[i]));
    }
    return SPARTA_OK;
}

SP_REFERENCE(Concat, copy_parts(cx, "Concat", args->attrs, &args->out[0], args->n_in, args->in, true))
SP_REFERENCE(Split, copy_parts(cx, "Split", args->attrs, &args->in[0], args->n_out, args->out, false))
