/* GlobalAveragePool: the mean of each plane, as a plane of size 1. */
#include "builtin/pool.h"

sparta_status sp_builtin_GlobalAveragePool(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_planes(cx, args, &sp_pool_average);
}
