/* GlobalMaxPool: the largest element of each plane, as a plane of size 1. */
#include "builtin/pool.h"

sparta_status sparta_builtin_GlobalMaxPool(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_planes(cx, args, &sparta_pool_max);
}
