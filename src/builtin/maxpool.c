/* MaxPool: the largest element of each window; padding is never one. The second output says where in x it stood. */
#include "builtin/pool.h"

sparta_status sp_builtin_MaxPool(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_windows(cx, args, &sp_pool_max);
}
