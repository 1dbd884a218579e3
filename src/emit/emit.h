/* emit: kernels that nobody wrote: nodes to nests, nests to C.
 *
 *     nodes of the graph --express--> nests (room kernel) --join--> one nest --text--> C with vector extensions --jit--> code
 *
 *     Mul(Sigmoid(x), x)     i*; x0: f32[i]; y0: f32[i]; t0 = sigmoid(x0); y0 = mul(t0,x0)          for (; i + LANES <= n_i; i += LANES) {
 *                                                                                                       const vec x0 = get_f32(px0 + i, LANES);
 *                                                                                                       const vec t0 = sigmoidv(x0);
 *                                                                                                       const vec y0 = t0 * x0;
 *                                                                                                       put_f32(py0 + i, y0, LANES); ...
 *
 * express.c says a node in index notation: labels of ops/flow.h where they say enough, a table (express.def) for what an operator computes. join.c
 * puts a nest into the one that reads its result, by substituting accesses. text.c writes the loops, spell.c what stands in them. The text depends on the structure alone: sizes
 * and strides are arguments. words.h holds what texts call and panel/vector.h does not have.
 */
#ifndef SP_EMIT_H
#define SP_EMIT_H

#include "device/device.h"
#include "graph/graph.h"
#include "kernel/kernel.h"

/* One typed node as a nest, in rows or on panels (where constants stay in rows). slot[i]: which input, and then output, of the node operand i is.
 * *can is false, without a message, where there is no nest for it. */
sparta_status sp_emit_node(sparta_ctx *cx, const sp_node *n, bool lanes, sp_nest *out, int *slot,
                           bool *can) SP_MUST;
/* `second` reads what `first` makes: one nest that does not store it, or does where keep[operand of first] says so. Operands are told apart by what they
 * are (the values of a graph): first_is and second_is of theirs, out_is of the result's. */
sparta_status sp_emit_join(sparta_ctx *cx, const sp_nest *first, const void *const *first_is,
                           const bool *keep, const sp_nest *second, const void *const *second_is,
                           sp_nest *out, const void **out_is, bool *can) SP_MUST;
/* The C text of a nest that holds (sp_nest_check), as function `symbol`; with its head, which the texts of several nests that are compiled together
 * have in common. */
sparta_status sp_emit_text(const sp_nest *n, const char *symbol, sp_target target, sp_text *out) SP_MUST;
sparta_status sp_emit_head(sp_target target, sp_text *out) SP_MUST;
void sp_emit_function(const sp_nest *n, const char *symbol, sp_text *out);

#endif
