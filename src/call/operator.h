/* The inside of an operator (sparta.h); for this room, which runs it, and for compile, which makes it.
 *
 *     create    expression --> a graph of one node --> implement, format, code --> a prepared call           library, with a context
 *     run       arrays --checked against the expression--> a copy of its job with these operands --> panels    runtime, no context
 *
 * A run copies the prepared job onto its stack and binds the copy, so that any number of threads may run one operator. Kernels that
 * work on panels get them in the caller's workspace: one panel of each operand a worker, packed before and unpacked after the
 * kernel; where a kernel reads beyond its panel (keys and values), or where panels are at most half as many as threads and several share one, all
 * panels, with a barrier before and after it.
 */
#ifndef SP_CALL_OPERATOR_H
#define SP_CALL_OPERATOR_H

#include "call/call.h"

#define SP_OPERATOR_OPERANDS 8
#define SP_OPERATOR_WORKERS  16 /* the most that share a run */

typedef struct sp_late { /* an array that comes with each run */
    char name[32];
    int at; /* input of the node; -1: the result */
    sparta_dtype dtype;
    int rank;
    int size[SPARTA_RANK]; /* of each dim: its place in sparta_operator.size */
} sp_late;

typedef struct sp_size { /* an index of the expression */
    char name[32];
    int64_t is; /* -1: any */
} sp_size;

struct sparta_operator {
    sparta_ctx *cx; /* of creating and freeing; runs do not touch it */
    sp_arena *arena;
    sp_graph *graph;
    sp_packed packed; /* the weight, as far as it is stored in a format */
    bool owned;       /* ... and its values are ours; positions always are */
    sp_call call;     /* prepared; its operands are those that are constant */
    sp_entry to_lanes, to_rows;
    const sp_object *object[3];
    bool beyond;       /* the kernel reads other panels than the one at hand */
    double share_from; /* SP_SHARE_FROM, but for checks that are about threads */
    int n_late, n_sizes;
    sp_late late[SP_OPERATOR_OPERANDS];
    sp_size size[SP_OPERATOR_OPERANDS * SPARTA_RANK];
    char reason[512];
};

/* Bind made-up arrays of the smallest sizes: what a kernel refuses is refused when the operator is made. */
sparta_status sp_operator_try(sparta_ctx *cx, const sparta_operator *op) SP_MUST;

#endif
