/* Gather: y[a, i, b] = x[a, indices[i], b]: the entries of x along attribute axis (0) that the indices name.
 */
#include "builtin/view.h"

sparta_status sp_builtin_Gather(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *indices = &args->in[1], *out = &args->out[0];
    int axis;
    SP_TRY(sp_builtin_axis(cx, "Gather", sp_attr_int(args->attrs, "axis", 0), x->rank, &axis));
    for (sp_walk w = sp_walk_begin(indices->rank, indices->dim, 1, &indices); w.more; sp_walk_next(&w)) {
        int64_t index;
        SP_TRY(sp_builtin_index(cx, "Gather", sp_element_get_int(indices->dtype, indices->data, w.at[0]),
                                x->dim[axis], &index));
        sparta_tensor from = sp_view_drop(x, axis, index), to = *out;
        for (int i = 0; i < indices->rank; i++) to = sp_view_drop(&to, axis, w.index[i]);
        SP_TRY(sp_tensor_copy(cx, &from, &to));
    }
    return SPARTA_OK;
}
