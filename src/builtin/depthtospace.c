/* DepthToSpace: y[n, c, h b + by, w b + bx] = x[n, channel of (by, bx, c), h, w]; attribute mode says whether the block or the
 * channel comes first (DCR, CRD). */
#include "builtin/blocks.h"
#include <string.h>

sparta_status sp_builtin_DepthToSpace(sparta_ctx *cx, const sp_op_args *args)
{
    sparta_tensor view[2];
    bool crd = !strcmp(sp_attr_string(args->attrs, "mode", "DCR"), "CRD");
    SP_TRY(sp_blocks_views(cx, args->attrs, &args->in[0], &args->out[0], crd, view));
    return sp_tensor_copy(cx, &view[0], &view[1]);
}
