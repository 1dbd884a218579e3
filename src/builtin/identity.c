/* Identity: y = x. */
#include "builtin/elementwise.h"

sparta_status sp_builtin_Identity(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_convert(cx, &args->in[0], &args->out[0]);
}
