/* GlobalMaxPool: the largest element of each plane, as a plane of size 1. */
#include "builtin/pool.h"

sparta_status sp_builtin_GlobalMaxPool(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_planes(cx, args, &sp_pool_max);
}
