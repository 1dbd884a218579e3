/* SpaceToDepth: y[n, channel of (by, bx, c), h, w] = x[n, c, h b + by, w b + bx]: the reverse of DepthToSpace. */
#include "builtin/blocks.h"

sparta_status sparta_builtin_SpaceToDepth(sparta_ctx *cx, const sparta_op_args *args)
{
    sparta_tensor view[2];
    SPARTA_TRY(sparta_blocks_views(cx, args->attrs, &args->out[0], &args->in[0], false, view));
    return sparta_tensor_copy(cx, &view[1], &view[0]);
}
