/* Shape rules of windows that slide: Conv, ConvTranspose and the pools. The attributes are read by builtin/window.h, which the
 * references use too.
 *
 *     out = (in + before + after - effective kernel) / stride + 1        rounded down, or up with ceil_mode
 *     out = in / stride, rounded up                                      for SAME
 */
#ifndef SP_OPS_WINDOW_H
#define SP_OPS_WINDOW_H

#include "builtin/window.h"
#include "ops/flow.h"

/* The window of a node for x (N, C, in...); `weights` (A, B, kernel...) or NULL: attribute kernel_shape says the kernel. */
sparta_status sp_ops_window(const sp_graph *g, const sp_node *n, const sp_dims *weights,
                            sp_window *out) SP_MUST;
/* Appends the spatial dims of what slides over x to `dims`. */
sparta_status sp_ops_slide(const sp_graph *g, const sp_node *n, const sp_window *w, sp_dims *dims) SP_MUST;

/* Multiplications for each element of the result, for deciding whether folding is worth it; at most INT64_MAX. */
int64_t sp_ops_window_work(const sp_node *n);

/* Labels of what slides: batch, and for each spatial dim one of the input, summed or whole, and one of the output. A run on
 * constants sees one window of the input. Input 0 and output 0 get these axes but the channel's. */
sparta_status sp_flow_window(sp_axes *a, const sp_window *w, sp_label_kind kind) SP_MUST;
/* Anything but zeros around the input? */
bool sp_window_padded(const sp_window *w);

#endif
