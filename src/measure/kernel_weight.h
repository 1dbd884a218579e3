/* The weight that kernel bench times: random or given, and pruned as asked. */
#ifndef SPARTA_MEASURE_KERNEL_WEIGHT_H
#define SPARTA_MEASURE_KERNEL_WEIGHT_H

#include "measure/measure.h"

/* (n, k) of f32, in the arena. */
sparta_status sparta_kernel_weight(sparta_ctx *cx, sparta_arena *arena, const sparta_kernel_request *r,
                                   sparta_tensor *out) SPARTA_MUST;

#endif
