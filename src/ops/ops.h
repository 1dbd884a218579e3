/* ops: what shape comes out.
 *
 * One file per operator of builtin/ops.def with one function, sparta_shape_<id>. It checks the node's inputs (ranks, dtypes,
 * dims; E_SHAPE / E_DTYPE messages name the operator, the node and the values), sets dtype and dims of its outputs, and, where
 * it can, the contents: `ints` for shape arithmetic on expressions. sparta_ops_infer runs the rules over the whole graph and
 * folds nodes whose inputs are all constant by calling their reference (within a size limit), so that exported shape
 * arithmetic vanishes.
 *
 *     [batch, sequence, 256] --Shape--> ints [batch, sequence, 256] --Gather 0--> ints [batch] --Concat--> ints [batch, -1, 4, 64] --Reshape-->
 *
 * Where two dims must agree and nothing proves it (two symbols that an exporter named twice, n-1 against max(0,n-1)), they are taken
 * to be equal: solve.c replaces a symbol by what it must be and shapes are inferred again; the rest are `must` rows of the graph, which
 * every run compares with its sizes before it starts (E_SHAPE). Only what is known to differ is an error here. Broadcasting counts as
 * agreeing unless one side is known to be 1. Data-dependent output shapes (a Reshape to unknown ints) are E_UNSUPPORTED, naming the
 * node and what would help ("fix the symbol with --dim").
 */
#ifndef SPARTA_OPS_H
#define SPARTA_OPS_H

#include "graph/graph.h"

typedef sparta_status (*sparta_shape_fn)(sparta_graph *g, sparta_node *n);

#define SPARTA_OP(id, domain, name, min_in, max_in, max_out)                                                 \
    sparta_status sparta_shape_##id(sparta_graph *g, sparta_node *n);
#include "builtin/ops.def"
#undef SPARTA_OP

/* Type every value, fold what is constant, sweep what is dead. Every value of the graph is typed afterwards. */
sparta_status sparta_ops_infer(sparta_graph *g) SPARTA_MUST;
/* One node only: for passes that add nodes. */
sparta_status sparta_ops_infer_node(sparta_graph *g, sparta_node *n) SPARTA_MUST;
/* Does infer leave a node of constants where it is (DequantizeLinear, so that weights stay narrow)? */
bool sparta_ops_keeps(const sparta_node *n);
/* Run the reference of a typed node whose inputs are constants: its outputs have their contents, whatever size they are. The node is still
 * there. */
sparta_status sparta_ops_fold(sparta_graph *g, sparta_node *n) SPARTA_MUST;
/* The same, and whether it should be tried again on the model opened anew with `given` bound first: it failed for a shape, or a given
 * symbol has become another one (a size of 1 broadcasts where a symbol is taken to be equal). */
sparta_status sparta_ops_infer_given(sparta_graph *g, const sparta_bindings *given, bool *bind) SPARTA_MUST;
/* Replace symbols of the inputs by what the graph's musts say they are; solved: some were, and shapes have to be inferred again. */
sparta_status sparta_ops_solve(sparta_graph *g, bool *solved) SPARTA_MUST;
bool sparta_ops_mentions(const sparta_expr *x, const char *symbol);
/* Replace symbols by constants ("batch" = 4) in inputs, before infer. Unknown names are E_USAGE. */
sparta_status sparta_ops_bind(sparta_graph *g, const sparta_bindings *b) SPARTA_MUST;
/* Run the whole graph on its references with the given inputs (by name); results are allocated from cx.
 * `every`, when not NULL, is called with each value computed: verify's unfused run. */
typedef sparta_status (*sparta_ops_watch)(void *arg, const sparta_value *v, const sparta_tensor *t);
sparta_status sparta_ops_run(sparta_ctx *cx, const sparta_graph *g, const sparta_named_tensor *inputs,
                             int n_inputs, sparta_tensor *outputs, sparta_ops_watch every,
                             void *arg) SPARTA_MUST; /* outputs[g->n_outputs]; sparta_free each data */
/* About how many multiply-adds such a run takes at these sizes of the symbols. */
sparta_status sparta_ops_cost(sparta_ctx *cx, const sparta_graph *g, const sparta_bindings *sizes,
                              double *out) SPARTA_MUST;
/* Is every output's item i, along the symbol, computed from item i of the inputs alone, however many items there are? *out is true
 * only where that is proven. The graph is typed. */
sparta_status sparta_ops_items_apart(sparta_graph *g, const char *symbol, bool *out) SPARTA_MUST;

#endif
