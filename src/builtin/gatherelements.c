/* GatherElements: y[i, j, k] = x[indices[i, j, k], j, k] when attribute axis (0) is 0, and so on. y has the
 * shape of indices. */
#include "builtin/view.h"

sparta_status sp_builtin_GatherElements(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *indices = &args->in[1], *out = &args->out[0];
    int axis;
    SP_TRY(sp_builtin_axis(cx, "GatherElements", sp_attr_int(args->attrs, "axis", 0), x->rank, &axis));
    const sparta_tensor *both[] = {indices, out};
    for (sp_walk w = sp_walk_begin(out->rank, out->dim, 2, both); w.more; sp_walk_next(&w)) {
        int64_t from = 0;
        for (int i = 0; i < x->rank; i++) {
            int64_t index =
                i == axis ? sp_element_get_int(indices->dtype, indices->data, w.at[0]) : w.index[i];
            SP_TRY(sp_builtin_index(cx, "GatherElements", index, x->dim[i], &index));
            from += index * x->stride[i];
        }
        sp_builtin_move(out->data, w.at[1], x->data, from, sparta_dtype_size(x->dtype));
    }
    return SPARTA_OK;
}
