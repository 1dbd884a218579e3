/* DepthToSpace: y[n, c, h b + by, w b + bx] = x[n, channel of (by, bx, c), h, w]; attribute mode says whether the block or the
 * channel comes first (DCR, CRD). */
#include "builtin/blocks.h"
#include <string.h>

sparta_status sparta_builtin_DepthToSpace(sparta_ctx *cx, const sparta_op_args *args)
{
    sparta_tensor view[2];
    bool crd = !strcmp(sparta_attr_string(args->attrs, "mode", "DCR"), "CRD");
    SPARTA_TRY(sparta_blocks_views(cx, args->attrs, &args->in[0], &args->out[0], crd, view));
    return sparta_tensor_copy(cx, &view[0], &view[1]);
}
