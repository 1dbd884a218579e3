/* Tile: y[i] = x[i mod size of x], along every dim; the second input says how often x repeats along each. */
#include "builtin/elementwise.h"

sparta_status sp_builtin_Tile(sparta_ctx *cx, const sp_op_args *args)
{
    (void)cx;
    const sparta_tensor *x = &args->in[0], *out = &args->out[0];
    for (sp_walk w = sp_walk_begin(out->rank, out->dim, 1, &out); w.more; sp_walk_next(&w)) {
        int64_t from = 0;
        for (int i = 0; i < x->rank; i++) from += w.index[i] % x->dim[i] * x->stride[i];
        sp_builtin_move(out->data, w.at[0], x->data, from, sparta_dtype_size(x->dtype));
    }
    return SPARTA_OK;
}
