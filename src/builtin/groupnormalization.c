/* GroupNormalization: attribute num_groups groups of channels of every image, each by its own mean and variance, then scale[c] and
 * bias[c] (the form of opset 21). */
#include "builtin/groups.h"

sparta_status sparta_builtin_GroupNormalization(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_groups(cx, args, sparta_attr_int(args->attrs, "num_groups", 1));
}
