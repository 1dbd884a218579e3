/* Pools: what is made of the elements in each window (MaxPool, AveragePool, LpPool) or of each whole plane (Global...).
 * The operators differ in how they fold elements into one number. */
#ifndef SP_BUILTIN_POOL_H
#define SP_BUILTIN_POOL_H

#include "builtin/window.h"

typedef struct sp_pooled {
    double value;
    int64_t at; /* where in the plane MaxPool's element stood; -1: nowhere */
    double p;   /* attribute p of the Lp pools */
} sp_pooled;

typedef struct sp_pool_fold {
    double first;
    void (*take)(sp_pooled *a, double x, int64_t at);
    double (*end)(const sp_pooled *a, int64_t count); /* count: elements, or places when padding counts */
} sp_pool_fold;

extern const sp_pool_fold sp_pool_max, sp_pool_average, sp_pool_lp;

sparta_status sp_builtin_windows(sparta_ctx *cx, const sp_op_args *args, const sp_pool_fold *fold) SP_MUST;
sparta_status sp_builtin_planes(sparta_ctx *cx, const sp_op_args *args, const sp_pool_fold *fold) SP_MUST;

#endif
