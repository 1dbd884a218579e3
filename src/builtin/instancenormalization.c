/* InstanceNormalization: every channel of every image by its own mean and variance, then scale[c] and bias[c]. */
#include "builtin/groups.h"

sparta_status sp_builtin_InstanceNormalization(sparta_ctx *cx, const sp_op_args *args)
{
    return args->in[0].dim[1] ? sp_builtin_groups(cx, args, args->in[0].dim[1]) : SPARTA_OK;
}
