/* ArgMin: the index of the smallest element along attribute axis. */
#include "builtin/arg.h"

sparta_status sp_builtin_ArgMin(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_arg(cx, args, "ArgMin", false);
}
