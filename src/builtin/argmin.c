/* ArgMin: the index of the smallest element along attribute axis. */
#include "builtin/arg.h"

sparta_status sparta_builtin_ArgMin(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_arg(cx, args, "ArgMin", false);
}
