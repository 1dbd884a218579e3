/* ArgMax: the index of the largest element along attribute axis. */
#include "builtin/arg.h"

sparta_status sp_builtin_ArgMax(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_arg(cx, args, "ArgMax", true);
}
