/* Unsqueeze: dims of size 1 appear in y where the second input says. The elements stay in order. */
#include "builtin/elementwise.h"

sparta_status sp_builtin_Unsqueeze(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_copy_flat(cx, &args->in[0], &args->out[0]);
}
