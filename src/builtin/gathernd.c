/* GatherND: y[b, t] = x[b, indices[b, t, 0], indices[b, t, 1], ...]: each tuple along the last dim of indices
 * names a slice of x. The first attribute batch_dims (0) dims are shared. */
#include "builtin/view.h"

static sparta_status gather(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *indices = &args->in[1], *out = &args->out[0];
    sp_picked p = {.n = 1, .times = 1, .from = x->data, .to = out->data};
    int64_t *offset;
    SP_TRY(sp_builtin_tuples(cx, "GatherND", x, indices, (int)sp_attr_int(args->attrs, "batch_dims", 0),
                             &offset, &p.bytes));
    for (int i = 0; i < indices->rank - 1; i++) p.n *= indices->dim[i];
    p.offset = offset;
    const sparta_status status = sp_picked_copy(cx, &p);
    sp_free(cx, offset);
    return status;
}

SP_REFERENCE(GatherND, sp_builtin_dense(cx, args, gather))
