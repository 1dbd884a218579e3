/* passes: the graph as exporters write it in, the graph that implements can run fast out.
 *
 *   MatMul, Add            --> Linear           ReduceMean, Sub, Pow, ...  --> LayerNormalization
 *   Div, Erf, Add, Mul     --> Gelu             Gather, Gather, Add        --> Embed
 *   MatMul, Mul, Add, Softmax, MatMul  --> Attention          Shape, Gather, Concat  --> gone
 *
 * The rows of passes.def run in order. After each of them types are inferred again, simplify tidies up and
 * sp_graph_verify checks the result. Every pass leaves a graph that computes the same and keeps names,
 * types and order of inputs and outputs. A value that somebody else uses, or that is an output of the graph,
 * is never swallowed by a fusion. Only f32 is fused; f16 and bf16 are widened to it first (pass_widen.c).
 */
#ifndef SP_COMPILE_PASSES_H
#define SP_COMPILE_PASSES_H

#include "graph/graph.h"

#define SP_PASS(name, what) sparta_status sp_pass_##name(sp_graph *g) SP_MUST;
#include "compile/passes.def"
#undef SP_PASS

/* Infer, and the first of them alone: what answers are compared with. References that round after each node of a deep model in bf16 are
 * themselves off by 3 %. */
sparta_status sp_compile_widen(sp_graph *g) SP_MUST;

/* All of them, with sp_ops_infer before, between and after. */
sparta_status sp_compile_passes(sp_graph *g) SP_MUST;
/* The same up to pass `last`, which is a row; E_USAGE lists those there are. */
sparta_status sp_compile_has_pass(sparta_ctx *cx, const char *name) SP_MUST; /* E_USAGE: there is none */
sparta_status sp_compile_passes_to(sp_graph *g, const char *last) SP_MUST;
/* Their names and what they do, a line each. */
void sp_compile_list_passes(sp_text *out);

#endif
