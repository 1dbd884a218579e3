/* AveragePool: the mean of each window, over its elements in x, or over its padding too with attribute count_include_pad=1; places that
 * ceil_mode adds beyond the padding never count. */
#include "builtin/pool.h"

sparta_status sp_builtin_AveragePool(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_windows(cx, args, &sp_pool_average);
}
