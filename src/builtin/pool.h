/* Pools: what is made of the elements in each window (MaxPool, AveragePool, LpPool) or of each whole plane (Global...).
 * The operators differ in how they fold elements into one number. */
#ifndef SPARTA_BUILTIN_POOL_H
#define SPARTA_BUILTIN_POOL_H

#include "builtin/window.h"

typedef struct sparta_pooled {
    double value;
    int64_t at; /* where in the plane MaxPool's element stood; -1: nowhere */
    double p;   /* attribute p of the Lp pools */
} sparta_pooled;

typedef struct sparta_pool_fold {
    double first;
    void (*take)(sparta_pooled *a, double x, int64_t at);
    double (*end)(const sparta_pooled *a, int64_t count); /* count: elements, or places when padding counts */
} sparta_pool_fold;

extern const sparta_pool_fold sparta_pool_max, sparta_pool_average, sparta_pool_lp;

sparta_status sparta_builtin_windows(sparta_ctx *cx, const sparta_op_args *args,
                                     const sparta_pool_fold *fold) SPARTA_MUST;
sparta_status sparta_builtin_planes(sparta_ctx *cx, const sparta_op_args *args,
                                    const sparta_pool_fold *fold) SPARTA_MUST;

#endif
