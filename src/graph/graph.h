/* graph: a model as values and nodes, in one arena.
 *
 *      input_ids --> Gather --> x --> MatMul --> y --> Add --> ...     nodes: in topological order
 *                      ^                ^               ^
 *                    table            weight           bias            constants: borrow the mapped model
 *
 * A value has a name, a dtype, dims (expressions over symbols such as `batch`), one producer or none. What is
 * known of its contents before running is kept on it: `constant` (all of it), or `ints` (a small integer
 * tensor whose elements are expressions: the shape arithmetic that exporters write, [batch, sequence, 12,
 * 64]).
 *
 * Text form, which parses back (print of parse is the same text):
 *
 *     graph "bert-mini"
 *     input  input_ids: i64[batch,sequence]
 *     const  w: f32[256,256] @"encoder.layer.0.query.weight"     large: fetched by name from its holder
 *     const  axes: i64[1] = [-1]                                 at most 16 elements: written out
 *     node   y: f32[batch,sequence,256] = MatMul(x, w) "/encoder/layer.0/MatMul"
 *     node   s: f32[batch,sequence,256] = Softmax(y) {axis=-1} "/softmax"
 *     bound  sequence[512]                                       the user promises: at most 512
 *     must   [n,2*(n/2)] "/up/Add"                               this node needs two sizes to be one
 *     output s
 *
 * Names that are no plain words are quoted, an absent input is `_`, a value without a type has `?` for one,
 * operators of other domains are written `sparta::Linear`. Attributes of each operator are the rows of
 * attributes.def: a name or kind that is not there does not enter a graph. Passes change a graph in place and
 * end with sparta_graph_verify.
 *
 * Files: graph.c building, must.c, change.c changing, verify.c, print.c and parse.c (parse_items.c: attributes and
 * lists of numbers).
 */
#ifndef SPARTA_GRAPH_H
#define SPARTA_GRAPH_H

#include "builtin/builtin.h"
#include "expr/expr.h"

#define SPARTA_GRAPH_INTS    64 /* integer constants of at most so many elements have `ints` */
#define SPARTA_GRAPH_WRITTEN 16 /* constants of at most so many elements are written out in the text */

typedef struct sparta_value sparta_value;
typedef struct sparta_node sparta_node;
typedef struct sparta_graph sparta_graph;

struct sparta_value {
    int id;           /* index in graph->value */
    const char *name; /* unique in the graph */
    sparta_dtype dtype;
    bool typed; /* dtype and dims are known */
    sparta_dims dims;
    sparta_node *producer; /* NULL: input or constant */
    bool is_input, is_output;
    const sparta_tensor *constant;  /* row-major contents, of the model or the arena; NULL: not known */
    const sparta_expr *const *ints; /* contents of a small tensor of integers, row-major; NULL: not known */
    int n_ints;
    const char *origin; /* name of the initialiser a constant was made from; may equal name */
};

struct sparta_node {
    sparta_op_id op;
    const char *name;
    const char *
        module; /* path of PyTorch's module it is part of, where the exporter says it ("encoder.layer.0.query"); or NULL */
    int n_in, n_out;
    sparta_value **in; /* NULL entries: absent optional inputs */
    sparta_value **out;
    sparta_attrs attrs;
};
/* Inputs and outputs as one list; NULL: an absent input. */
static inline int sparta_node_slots(const sparta_node *n)
{
    return n->n_in + n->n_out;
}
static inline sparta_value *sparta_node_slot(const sparta_node *n, int i)
{
    return i < n->n_in ? n->in[i] : n->out[i - n->n_in];
}

typedef struct sparta_bound { /* the most a symbol may be */
    const char *symbol;
    int64_t most;
} sparta_bound;
#define SPARTA_GRAPH_BOUNDS 16
typedef struct
    sparta_must { /* two sizes that a node takes for one and nothing proves to be: compared when sizes are known */
    const sparta_expr *a, *b;
    const char *node;
} sparta_must;
#define SPARTA_GRAPH_MUSTS 256

struct sparta_graph {
    sparta_ctx *cx;
    sparta_arena *arena;
    const char *name;
    int n_values, n_nodes, n_inputs, n_outputs;
    sparta_value **value; /* all of them, dead ones included */
    sparta_node **node;   /* topological order */
    sparta_value **input, **output;
    int value_capacity, node_capacity, input_capacity, output_capacity;
    int n_bounds;
    sparta_bound bound[SPARTA_GRAPH_BOUNDS];
    int n_fixed; /* symbols that were replaced by numbers, so that a second word about them is understood; not in the text */
    sparta_bound fixed[SPARTA_GRAPH_BOUNDS];
    int n_musts;
    sparta_must *must;   /* room for SPARTA_GRAPH_MUSTS; NULL: there are none */
    sparta_map *by_name; /* value name -> id */
    sparta_arena
        *adopted; /* holds constants' data made for this graph by somebody else; freed with it; may be NULL */
    int fresh;    /* number of the next fresh name */
    int64_t folded; /* multiplications that folding constants has taken, in all inferences together */
};

sparta_status sparta_graph_create(sparta_ctx *cx, const char *name, sparta_graph **out) SPARTA_MUST;
void sparta_graph_free(sparta_graph *g);

/* Building. Names are copied; a name already taken is E_FORMAT; name NULL makes a fresh one ("%12"). */
sparta_status sparta_graph_add_value(sparta_graph *g, const char *name, sparta_value **out) SPARTA_MUST;
sparta_status sparta_graph_add_input(sparta_graph *g, const char *name, sparta_dtype dtype,
                                     const sparta_dims *dims, sparta_value **out) SPARTA_MUST;
/* `tensor` (row-major) is copied as a struct; its data is borrowed, or copied into the arena when `copy`.
 * Also fills ints when small. */
sparta_status sparta_graph_add_constant(sparta_graph *g, const char *name, const sparta_tensor *tensor,
                                        bool copy, sparta_value **out) SPARTA_MUST;
sparta_status sparta_graph_add_output(sparta_graph *g, sparta_value *v) SPARTA_MUST;
/* Appends a node; outputs are fresh untyped values when out[i] is NULL on entry. attrs (NULL: none) are
 * copied deeply and checked with sparta_graph_check_attrs. name NULL is "". `node` may be NULL. */
sparta_status sparta_graph_add_node(sparta_graph *g, sparta_op_id op, const char *name, int n_in,
                                    sparta_value *const *in, int n_out, sparta_value **out,
                                    const sparta_attrs *attrs, sparta_node **node) SPARTA_MUST;
sparta_value *sparta_graph_find(const sparta_graph *g, const char *name); /* or NULL */
/* The symbol is at most `most`; a second bound on it must be smaller to count. */
sparta_status sparta_graph_add_bound(sparta_graph *g, const char *symbol, int64_t most) SPARTA_MUST;
/* Two sizes that must be equal; one that is there already is not added again. */
sparta_status sparta_graph_add_must(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                                    const char *node) SPARTA_MUST;
/* Is every must so at these sizes? Else E_SHAPE: before anything runs, since whatever runs relies on it. */
sparta_status sparta_graph_check_musts(sparta_ctx *cx, const sparta_graph *g,
                                       const sparta_bindings *sizes) SPARTA_MUST;
bool sparta_graph_is_annotation(
    const char *name); /* an attribute of a plan that changes nothing about what is computed? */
/* Every attribute is a row of attributes.def (else E_UNSUPPORTED), of its kind and given once (else
 * E_FORMAT). */
sparta_status sparta_graph_check_attrs(sparta_ctx *cx, sparta_op_id op,
                                       const sparta_attrs *attrs) SPARTA_MUST;

/* Changing. */
/* All uses. An output keeps its name and id: `by` takes them over. Where it cannot (it is an input, a constant or an
 * output itself) the output stays with `old`, and whoever produces it lives on. */
void sparta_graph_replace(sparta_graph *g, sparta_value *old, sparta_value *by);
int sparta_graph_uses(const sparta_graph *g,
                      const sparta_value *v); /* nodes (counted per input slot) and outputs */
/* Who has a value, as an input or an output: nodes by their place in the graph, once for each slot, user[first[id]] to
 * user[first[id + 1]]. True until the graph changes. */
typedef struct sparta_users {
    int *first, *user;
} sparta_users;
sparta_status sparta_graph_users(const sparta_graph *g, sparta_arena *arena, sparta_users *out) SPARTA_MUST;
/* sparta_graph_replace for one of many, with an index that was made before: whoever came to have `old` since is not seen, which in
 * topological order is nobody. */
void sparta_graph_replace_among(sparta_graph *g, const sparta_users *u, sparta_value *old, sparta_value *by);
/* Before node[at]. A node that is in the list already (just added, say) moves there. */
sparta_status sparta_graph_insert_node(sparta_graph *g, int at, sparta_node *node) SPARTA_MUST;
void sparta_graph_remove_node(sparta_graph *g, int at);
sparta_status sparta_graph_sweep(sparta_graph *g) SPARTA_MUST; /* drop nodes nobody uses; keep the order */
sparta_status sparta_graph_sort(sparta_graph *g)
    SPARTA_MUST; /* stable topological sort; a cycle is E_FORMAT naming a node on it */
/* Checks every invariant above; E_INTERNAL names the broken one. */
sparta_status sparta_graph_verify(const sparta_graph *g) SPARTA_MUST;

void sparta_graph_print(const sparta_graph *g, sparta_text *out);
/* The same with constants of integers (indices, sizes) of at most so many elements written out. */
void sparta_graph_print_integers(const sparta_graph *g, int64_t integers, sparta_text *out);
/* Gives the contents of a large constant by its @name: `out` comes with the dtype and dims that the text
 * declares and data NULL; the callee sets data, or the whole view, which is then compared with what was
 * declared. The data is borrowed. */
typedef sparta_status (*sparta_graph_fetch)(void *arg, const char *name, sparta_tensor *out);
sparta_status sparta_graph_parse(sparta_ctx *cx, const char *text, sparta_graph_fetch fetch, void *arg,
                                 sparta_graph **out) SPARTA_MUST;

#endif
