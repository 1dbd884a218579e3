/* Expand: x broadcast against the dims of the second input; dims of size 1 repeat. */
#include "builtin/view.h"

sparta_status sp_builtin_Expand(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_convert(cx, &args->in[0], &args->out[0]);
}
