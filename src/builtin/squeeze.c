/* Squeeze: dims of size 1 disappear: those of the second input, or all. The elements stay in order. */
#include "builtin/elementwise.h"

sparta_status sp_builtin_Squeeze(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_copy_flat(cx, &args->in[0], &args->out[0]);
}
