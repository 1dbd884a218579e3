/* estimate.h: how long nodes take, by counting, and which share of a model's time has no kernel (estimate.c). */
#ifndef SP_COMPILE_ESTIMATE_H
#define SP_COMPILE_ESTIMATE_H

#include "graph/graph.h"

/* A value for each symbol of the inputs of an inferred graph: an item of 128 tokens, or 224 x 224, or 128 items. Lives in the arena. */
sparta_status sp_compile_usual_sizes(sparta_ctx *cx, sp_arena *arena, const sp_graph *g,
                                     sp_bindings *out) SP_MUST;
/* Is the symbol the length of what came before: an axis of an input of f32 along which the model appends to it? */
bool sp_compile_is_past(const sp_graph *g, const char *symbol);
/* Microseconds of a node on one thread, at these sizes: on its reference, and on a kernel of ours if it had one. */
double sp_compile_estimate_node(sparta_ctx *cx, const sp_node *n, const sp_bindings *sizes);
double sp_compile_estimate_kernel(sparta_ctx *cx, const sp_node *n, const sp_bindings *sizes);
/* Why none does: "there are no kernels of convolutions yet: the reference runs it". */
void sp_compile_without_kernel(const sp_node *n, char *out, size_t size);

typedef struct sp_coverage {
    double without_kernel; /* share of the estimated time that runs on references, 0 to 1 */
    int worst;             /* operator that has most of it; -1: none has any */
    double worst_share;
    const char *why, *help; /* of most of it */
} sp_coverage;
#define SP_COVERAGE_SAID .1 /* from this share on it is said without being asked */
/* Of a plan, or of a graph after the passes. */
sparta_status sp_compile_coverage(sparta_ctx *cx, const sp_graph *g, sp_coverage *out) SP_MUST;
/* A note of it when it matters. */
void sp_compile_note_coverage(sparta_ctx *cx, const sp_coverage *c);

#endif
