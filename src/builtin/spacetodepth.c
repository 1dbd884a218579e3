/* SpaceToDepth: y[n, channel of (by, bx, c), h, w] = x[n, c, h b + by, w b + bx]: the reverse of DepthToSpace. */
#include "builtin/blocks.h"

sparta_status sp_builtin_SpaceToDepth(sparta_ctx *cx, const sp_op_args *args)
{
    sparta_tensor view[2];
    SP_TRY(sp_blocks_views(cx, args->attrs, &args->out[0], &args->in[0], false, view));
    return sp_tensor_copy(cx, &view[1], &view[0]);
}
