/* DepthToSpace and SpaceToDepth: squares of blocksize x blocksize positions become channels and back.
 *
 *   deep (N, C b b, H, W)   seen as (N, C, H, by, W, bx), by the strides of the channels   <->   wide (N, C, H b, W b)
 */
#ifndef SP_BUILTIN_BLOCKS_H
#define SP_BUILTIN_BLOCKS_H

#include "builtin/view.h"

/* The views of both sides; crd: channels of the deep side are (C, by, bx), otherwise (by, bx, C). */
sparta_status sp_blocks_views(sparta_ctx *cx, const sp_attrs *attrs, const sparta_tensor *deep,
                              const sparta_tensor *wide, bool crd, sparta_tensor view[2]) SP_MUST;

#endif
