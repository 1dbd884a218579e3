/* Gather: y[a, i, b] = x[a, indices[i], b]: the entries of x along attribute axis (0) that the indices name.
 */
#include "builtin/view.h"

sparta_status sparta_builtin_Gather(sparta_ctx *cx, const sparta_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *indices = &args->in[1], *out = &args->out[0];
    int axis;
    SPARTA_TRY(sparta_builtin_axis(cx, "Gather", sparta_attr_int(args->attrs, "axis", 0), x->rank, &axis));
    for (sparta_walk w = sparta_walk_begin(indices->rank, indices->dim, 1, &indices); w.more;
         sparta_walk_next(&w)) {
        int64_t index;
        SPARTA_TRY(sparta_builtin_index(cx, "Gather",
                                        sparta_element_get_int(indices->dtype, indices->data, w.at[0]),
                                        x->dim[axis], &index));
        sparta_tensor from = sparta_view_drop(x, axis, index), to = *out;
        for (int i = 0; i < indices->rank; i++) to = sparta_view_drop(&to, axis, w.index[i]);
        SPARTA_TRY(sparta_tensor_copy(cx, &from, &to));
    }
    return SPARTA_OK;
}
