/* LpPool: (sum of |x|^p) ^ (1/p) over each window. */
#include "builtin/pool.h"

sparta_status sp_builtin_LpPool(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_windows(cx, args, &sp_pool_lp);
}
