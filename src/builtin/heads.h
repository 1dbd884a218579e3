/* Tensors with heads, in the two forms that ONNX has, as one view.
 *
 *     (B, heads, S, D)   as it is           (B, S, heads*D)   the h-th D columns are head h
 */
#ifndef SP_BUILTIN_HEADS_H
#define SP_BUILTIN_HEADS_H

#include "builtin/view.h"

/* A view (B, heads, S, D) of t; E_SHAPE when a third dimension does not divide into `heads`. */
sparta_status sp_view_heads(sparta_ctx *cx, const char *op, const sparta_tensor *t, int64_t heads,
                            sparta_tensor *out) SP_MUST;

#endif
