/* MaxPool: the largest element of each window; padding is never one. The second output says where in x it stood. */
#include "builtin/pool.h"

sparta_status sparta_builtin_MaxPool(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_windows(cx, args, &sparta_pool_max);
}
