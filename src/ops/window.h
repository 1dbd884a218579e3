/* Shape rules of windows that slide: Conv, ConvTranspose and the pools. The attributes are read by builtin/window.h, which the
 * references use too.
 *
 *     out = (in + before + after - effective kernel) / stride + 1        rounded down, or up with ceil_mode
 *     out = in / stride, rounded up                                      for SAME
 */
#ifndef SPARTA_OPS_WINDOW_H
#define SPARTA_OPS_WINDOW_H

#include "builtin/window.h"
#include "ops/flow.h"
#include "ops/rule.h"

/* The window of a node for x (N, C, in...); `weights` (A, B, kernel...) or NULL: attribute kernel_shape says the kernel. */
sparta_status sparta_ops_window(const sparta_graph *g, const sparta_node *n, const sparta_dims *weights,
                                sparta_window *out) SPARTA_MUST;
/* Appends the spatial dims of what slides over x to `dims`. */
sparta_status sparta_ops_slide(const sparta_graph *g, const sparta_node *n, const sparta_window *w,
                               sparta_dims *dims) SPARTA_MUST;
/* x (N, C, ...), and input i is (C), of the type of x: a scale or a bias. Absent is fine. */
sparta_status sparta_ops_per_channel(sparta_graph *g, const sparta_node *n, int i) SPARTA_MUST;

/* Input 2, if it is there, has an element for each filter. */
sparta_status sparta_ops_filter_bias(sparta_graph *g, const sparta_node *n,
                                     const sparta_expr *filters) SPARTA_MUST;

/* Whole rules: pools over windows, and over all spatial dims. */
sparta_status sparta_ops_pool(sparta_graph *g, sparta_node *n, unsigned types) SPARTA_MUST;
sparta_status sparta_ops_pool_all(sparta_graph *g, sparta_node *n) SPARTA_MUST;
/* Multiplications for each element of the result, for deciding whether folding is worth it; at most INT64_MAX. */
int64_t sparta_ops_window_work(const sparta_node *n);

/* Labels of what slides: batch, and for each spatial dim one of the input, summed or whole, and one of the output. A run on
 * constants sees one window of the input. Input 0 and output 0 get these axes but the channel's. */
sparta_status sparta_flow_window(sparta_axes *a, const sparta_window *w, sparta_label_kind kind) SPARTA_MUST;
/* Taps: axis k of the weights. Summed, and none goes. */
sparta_status sparta_flow_taps(sparta_axes *a, int k) SPARTA_MUST;
/* Attribute `group` of a convolution, whose label 0 is the groups. */
sparta_status sparta_shrink_groups(const sparta_shrink *s) SPARTA_MUST;
/* Anything but zeros around the input? */
bool sparta_window_padded(const sparta_window *w);
/* A pool: channel by channel. */
sparta_status sparta_flow_pool(sparta_axes *a, sparta_flow_how how, bool values) SPARTA_MUST;
/* A pool over all spatial dims. */
sparta_status sparta_flow_pool_all(sparta_axes *a, sparta_flow_how how, bool values) SPARTA_MUST;

#endif
