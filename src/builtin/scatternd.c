/* ScatterND: y = x, then y[indices[t, 0], indices[t, 1], ...] = updates[t] for each tuple t along the last
 * dim of indices, in order. Attribute reduction ("none", "add", "mul", "max", "min") combines with what is
 * there, also for repeated tuples. */
#include "builtin/view.h"
#include <string.h>

/* to = to `reduction` from, by the operator of that meaning. It reads each element of `to` before it writes
 * it. */
static sparta_status put(sparta_ctx *cx, const char *reduction, const sparta_tensor *from,
                         const sparta_tensor *to)
{
    static const struct {
        const char *name;
        sp_builtin_fn fn;
    } table[] = {
        {"add", sp_builtin_Add}, {"mul", sp_builtin_Mul}, {"max", sp_builtin_Max}, {"min", sp_builtin_Min}};
    sparta_tensor in[] = {*to, *from};
    for (size_t i = 0; i < SP_COUNT(table); i++)
        if (!strcmp(table[i].name, reduction))
            return table[i].fn(cx, &(sp_op_args){.n_in = 2, .n_out = 1, .in = in, .out = to});
    return sp_tensor_copy(cx, from, to);
}

sparta_status sp_builtin_ScatterND(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *indices = &args->in[1], *updates = &args->in[2], *out = &args->out[0];
    const char *reduction = sp_attr_string(args->attrs, "reduction", "none");
    int last = indices->rank - 1, tuple = (int)indices->dim[last];
    SP_TRY(sp_tensor_copy(cx, &args->in[0], out));
    for (sp_walk w = sp_walk_begin(last, indices->dim, 1, &indices); w.more; sp_walk_next(&w)) {
        sparta_tensor from = *updates, to = *out;
        for (int i = 0; i < last; i++) from = sp_view_drop(&from, 0, w.index[i]);
        for (int i = 0; i < tuple; i++) {
            int64_t index =
                sp_element_get_int(indices->dtype, indices->data, w.at[0] + i * indices->stride[last]);
            SP_TRY(sp_builtin_index(cx, "ScatterND", index, out->dim[i], &index));
            to = sp_view_drop(&to, 0, index);
        }
        SP_TRY(put(cx, reduction, &from, &to));
    }
    return SPARTA_OK;
}
