/* ops: what shape comes out.
 *
 * Every operator of builtin/ops.def has one rule, sp_rule_<id> (flow.h), in its file, in that of its family, or made of its row
 * (elementwise.c). Its shape function checks the node's inputs (ranks, dtypes, dims; E_SHAPE / E_DTYPE messages name the operator, the
 * node and the values), sets dtype and dims of its outputs, and, where it can, the contents: `ints` for shape arithmetic on expressions. sp_ops_infer runs the rules over the whole graph and
 * folds nodes whose inputs are all constant by calling their reference (within a size limit), so that exported shape
 * arithmetic vanishes.
 *
 *     [batch, sequence, 256] --Shape--> ints [batch, sequence, 256] --Gather 0--> ints [batch] --Concat--> ints [batch, -1, 4, 64] --Reshape-->
 *
 * Where two dims must agree and nothing proves it (two symbols that an exporter named twice, n-1 against max(0,n-1)), they are taken
 * to be equal: solve.c replaces a symbol by what it must be and shapes are inferred again; the rest are `must` rows of the graph, which
 * every run compares with its sizes before it starts (E_SHAPE). Only what is known to differ is an error here. Broadcasting counts as
 * agreeing unless one side is known to be 1. Data-dependent output shapes (a Reshape to unknown ints) are E_UNSUPPORTED, naming the
 * node and what would help ("fix the symbol with options.dims").
 */
#ifndef SP_OPS_H
#define SP_OPS_H

#include "graph/graph.h"

/* Type every value, fold what is constant, sweep what is dead. Every value of the graph is typed afterwards. */
sparta_status sp_ops_infer(sp_graph *g) SP_MUST;
/* One node only: for passes that add nodes. */
sparta_status sp_ops_infer_node(sp_graph *g, sp_node *n) SP_MUST;
/* Does infer leave a node of constants where it is (DequantizeLinear, so that weights stay narrow)? */
bool sp_ops_keeps(const sp_node *n);
/* Run the reference of a typed node whose inputs are constants: its outputs have their contents, whatever size they are. The node is still
 * there. */
sparta_status sp_ops_fold(sp_graph *g, sp_node *n) SP_MUST;
/* The same, and whether it should be tried again on the model opened anew with `given` bound first: it failed for a shape, or a given
 * symbol has become another one (a size of 1 broadcasts where a symbol is taken to be equal), or no input has it by itself (2*half). */
sparta_status sp_ops_infer_given(sp_graph *g, const sp_bindings *given, bool *bind) SP_MUST;
/* Replace symbols of the inputs by what the graph's musts say they are; solved: some were, and shapes have to be inferred again. */
sparta_status sp_ops_solve(sp_graph *g, bool *solved) SP_MUST;
bool sp_ops_mentions(const sp_expr *x, const char *symbol);
/* Is a dim of an input just this symbol, so that an array says what it is? Of 2*half none says what half is. */
bool sp_ops_is_size(const sp_graph *g, const char *name);
/* Replace symbols by constants ("batch" = 4) in inputs, before infer. Unknown names and sizes out of bounds are E_USAGE. */
sparta_status sp_ops_bind(sp_graph *g, const sp_bindings *b) SP_MUST;
/* Run the whole graph on its references with the given inputs (by name); results are allocated from cx.
 * `every`, when not NULL, is called with each value computed: verify's unfused run. */
typedef sparta_status (*sp_ops_watch)(void *arg, const sp_value *v, const sparta_tensor *t);
sparta_status sp_ops_run(sparta_ctx *cx, const sp_graph *g, const sparta_named_tensor *inputs, int n_inputs,
                         sparta_tensor *outputs, sp_ops_watch every,
                         void *arg) SP_MUST; /* outputs[g->n_outputs]; sp_free each data */
/* The same by quick twins (builtin/quick.h) where there are some: for those who need the values, not the judge. */
sparta_status sp_ops_run_quick(sparta_ctx *cx, const sp_graph *g, const sparta_named_tensor *inputs,
                               int n_inputs, sparta_tensor *outputs, sp_ops_watch every, void *arg) SP_MUST;
/* At these sizes of the symbols, the multiply-adds of a node that is a product, 0 of another; the elements that a node reads or makes, the
 * larger; and about how many multiply-adds a run of the whole graph takes. */
double sp_ops_products(sparta_ctx *cx, const sp_node *n, const sp_bindings *sizes);
double sp_ops_touched(sparta_ctx *cx, const sp_node *n, const sp_bindings *sizes);
double sp_ops_cost(sparta_ctx *cx, const sp_graph *g, const sp_bindings *sizes);
/* Is every output's item i, along the symbol, computed from item i of the inputs alone, however many items there are? *out is true
 * only where that is proven. The graph is typed. */
sparta_status sp_ops_items_apart(sp_graph *g, const char *symbol, bool *out) SP_MUST;

#endif
