/* LpPool: (sum of |x|^p) ^ (1/p) over each window. */
#include "builtin/pool.h"

sparta_status sparta_builtin_LpPool(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_windows(cx, args, &sparta_pool_lp);
}
