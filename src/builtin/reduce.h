/* Reductions over some of the dims.
 *
 *     acc = start;  for every element x of the reduced dims: acc = f(acc, x);  y = acc, for the mean divided
 * by their number, or finish(acc)
 *
 * Which dims: the second input of the operator; without it (or when it is empty) all, or none when
 * noop_with_empty_axes=1.
 */
#ifndef SPARTA_BUILTIN_REDUCE_H
#define SPARTA_BUILTIN_REDUCE_H

#include "builtin/elementwise.h"

typedef struct sparta_reduction {
    const char *op;
    sparta_binary f;
    double real_start;
    int64_t (*integer_start)(sparta_dtype dtype);
    bool mean;
    bool in_double; /* integers too, and the result is cut off: roots and logarithms; f.real serves all */
    double (*finish)(double x); /* of the result, which is in double; NULL: as it is */
} sparta_reduction;

sparta_status sparta_builtin_reduce(sparta_ctx *cx, const sparta_op_args *args,
                                    const sparta_reduction *r) SPARTA_MUST;
int64_t sparta_dtype_lowest(sparta_dtype dtype); /* of an integer type or bool; u64 as int64 bits */
int64_t sparta_dtype_highest(sparta_dtype dtype);

#endif
