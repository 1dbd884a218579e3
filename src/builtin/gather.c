/* Gather: y[a, i, b] = x[a, indices[i], b]: the entries of x along attribute axis (0) that the indices name.
 */
#include "builtin/view.h"

static sparta_status gather(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *indices = &args->in[1], *out = &args->out[0];
    const int64_t n = sparta_tensor_elements(indices);
    sp_picked p = {
        .n = n, .times = 1, .from = x->data, .to = out->data, .bytes = sparta_dtype_size(x->dtype)};
    int axis;
    SP_TRY(sp_builtin_axis(cx, "Gather", sp_attr_int(args->attrs, "axis", 0), x->rank, &axis));
    for (int i = 0; i < axis; i++) p.times *= x->dim[i];
    for (int i = axis + 1; i < x->rank; i++) p.bytes *= (size_t)x->dim[i];
    p.from_step = (int64_t)p.bytes * x->dim[axis];
    int64_t *offset = sp_alloc_array(cx, (size_t)n + 1, sizeof *offset);
    SP_NEED(cx, offset);
    p.offset = offset;
    sparta_status status = SPARTA_OK;
    if (!sp_builtin_offsets(indices, 0, n, x->dim[axis], (int64_t)p.bytes, offset))
        status = sp_builtin_check_indices(cx, "Gather", indices, x->dim[axis]);
    if (status == SPARTA_OK) status = sp_picked_copy(cx, &p);
    sp_free(cx, offset);
    return status;
}

SP_REFERENCE(Gather, sp_builtin_dense(cx, args, gather))
