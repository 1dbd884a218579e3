/* Reductions over some of the dims.
 *
 *     acc = start;  for every element x of the reduced dims: acc = f(acc, x);  y = acc, for the mean divided
 * by their number, or finish(acc)
 *
 * Which dims: the second input of the operator; without it (or when it is empty) all, or none when
 * noop_with_empty_axes=1.
 */
#ifndef SP_BUILTIN_REDUCE_H
#define SP_BUILTIN_REDUCE_H

#include "builtin/elementwise.h"

typedef struct sp_reduction {
    const char *op;
    sp_binary f;
    double real_start;
    int64_t (*integer_start)(sparta_dtype dtype);
    bool mean;
    bool in_double; /* integers too, and the result is cut off: roots and logarithms; f.real serves all */
    double (*finish)(double x); /* of the result, which is in double; NULL: as it is */
} sp_reduction;

sparta_status sp_builtin_reduce(sparta_ctx *cx, const sp_op_args *args, const sp_reduction *r) SP_MUST;
int64_t sp_dtype_lowest(sparta_dtype dtype); /* of an integer type or bool; u64 as int64 bits */
int64_t sp_dtype_highest(sparta_dtype dtype);

#endif
