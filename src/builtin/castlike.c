/* CastLike: y = x in the type of the second input, by the rules of Cast. */
#include "builtin/elementwise.h"

sparta_status sp_builtin_CastLike(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_convert(cx, &args->in[0], &args->out[0]);
}
