/* Where: y = condition ? a : b, the three broadcasting against each other. */
#include "builtin/elementwise.h"

sparta_status sp_builtin_Where(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *out = &args->out[0];
    sparta_tensor in[3];
    for (int i = 0; i < 3; i++) SP_TRY(sp_tensor_broadcast(cx, &args->in[i], out->rank, out->dim, &in[i]));
    size_t size = sparta_dtype_size(out->dtype);
    const sparta_tensor *all[] = {&in[0], &in[1], &in[2], out};
    for (sp_cursor w = sp_cursor_begin(out->rank, out->dim, 4, all); w.more; sp_cursor_next(&w)) {
        int from = sp_element_get_int(SPARTA_BOOL, in[0].data, w.at[0]) ? 1 : 2;
        sp_builtin_move(out->data, w.at[3], in[from].data, w.at[from], size);
    }
    return SPARTA_OK;
}
