/* The weight that kernel bench times: random or given, and pruned as asked. */
#ifndef SP_MEASURE_KERNEL_WEIGHT_H
#define SP_MEASURE_KERNEL_WEIGHT_H

#include "measure/measure.h"

/* (n, k) of f32, in the arena. */
sparta_status sp_kernel_weight(sparta_ctx *cx, sp_arena *arena, const sp_kernel_request *r,
                               sparta_tensor *out) SP_MUST;

#endif
