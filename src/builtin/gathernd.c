/* GatherND: y[b, t] = x[b, indices[b, t, 0], indices[b, t, 1], ...]: each tuple along the last dim of indices
 * names a slice of x. The first attribute batch_dims (0) dims are shared. */
#include "builtin/view.h"

/* Index of x along dim i: where we stand in the batch, or an entry of the tuple we stand at. */
static int64_t entry(const sparta_tensor *indices, const sp_walk *w, int i, int batch)
{
    if (i < batch) return w->index[i];
    return sp_element_get_int(indices->dtype, indices->data,
                              w->at[0] + (i - batch) * indices->stride[indices->rank - 1]);
}

sparta_status sp_builtin_GatherND(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *indices = &args->in[1], *out = &args->out[0];
    int batch = (int)sp_attr_int(args->attrs, "batch_dims", 0), last = indices->rank - 1;
    int tuple = (int)indices->dim[last];
    for (sp_walk w = sp_walk_begin(last, indices->dim, 1, &indices); w.more; sp_walk_next(&w)) {
        sparta_tensor from = *x, to = *out;
        for (int i = 0; i < batch + tuple; i++) {
            int64_t index;
            SP_TRY(sp_builtin_index(cx, "GatherND", entry(indices, &w, i, batch), x->dim[i], &index));
            from = sp_view_drop(&from, 0, index);
        }
        for (int i = 0; i < last; i++) to = sp_view_drop(&to, 0, w.index[i]);
        SP_TRY(sp_tensor_copy(cx, &from, &to));
    }
    return SPARTA_OK;
}
