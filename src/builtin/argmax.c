/* ArgMax: the index of the largest element along attribute axis. */
#include "builtin/arg.h"

sparta_status sparta_builtin_ArgMax(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_arg(cx, args, "ArgMax", true);
}
