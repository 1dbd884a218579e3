/* InstanceNormalization and GroupNormalization: mean and variance over groups of neighbouring channels of each image. */
#ifndef SP_BUILTIN_GROUPS_H
#define SP_BUILTIN_GROUPS_H

#include "builtin/view.h"

/* y = (x - mean) / sqrt(variance + epsilon) * scale[c] + bias[c]; x (N, C, ...), statistics over each of `groups` runs of channels of
 * each n, in double. groups divides C. */
sparta_status sp_builtin_groups(sparta_ctx *cx, const sp_op_args *args, int64_t groups) SP_MUST;

#endif
