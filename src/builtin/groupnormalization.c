/* GroupNormalization: attribute num_groups groups of channels of every image, each by its own mean and variance, then scale[c] and
 * bias[c] (the form of opset 21). */
#include "builtin/groups.h"

sparta_status sp_builtin_GroupNormalization(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_groups(cx, args, sp_attr_int(args->attrs, "num_groups", 1));
}
