/* Identity: y = x. */
#include "builtin/elementwise.h"

sparta_status sparta_builtin_Identity(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_convert(cx, &args->in[0], &args->out[0]);
}
