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
 *     bound  sequence[512]                                       the user promises: at most 512; [16,512]: at least 16, too
 *     must   [n,2*(n/2)] "/up/Add"                               this node needs two sizes to be one
 *     output s
 *
 * Names that are no plain words are quoted, an absent input is `_`, a value without a type has `?` for one,
 * operators of other domains are written `sparta::Linear`. Attributes of each operator are the rows of
 * attributes.def: a name or kind that is not there does not enter a graph. Passes change a graph in place and
 * end with sp_graph_verify.
 *
 * Files: graph.c building, must.c, change.c changing, verify.c, print.c and parse.c (parse_items.c: attributes and
 * lists of numbers).
 */
#ifndef SP_GRAPH_H
#define SP_GRAPH_H

#include "builtin/builtin.h"
#include "expr/expr.h"

#define SP_GRAPH_INTS    64  /* integer constants of at most this many elements have `ints` */
#define SP_GRAPH_SYMBOLS 256 /* the most symbols that the inputs may have where their sizes are worked with */
#define SP_GRAPH_WRITTEN 16  /* constants of at most this many elements are written out in the text */

typedef struct sp_value sp_value;
typedef struct sp_node sp_node;
typedef struct sp_graph sp_graph;

struct sp_value {
    int id;           /* index in graph->value */
    const char *name; /* unique in the graph */
    sparta_dtype dtype;
    bool typed; /* dtype and dims are known */
    sp_dims dims;
    sp_node *producer; /* NULL: input or constant */
    bool is_input, is_output;
    const sparta_tensor *constant; /* row-major contents, of the model or the arena; NULL: not known */
    const sp_expr *const *ints;    /* contents of a small tensor of integers, row-major; NULL: not known */
    int n_ints;
    const char *origin; /* name of the initialiser a constant was made from; may equal name */
    /* A constant that was made of several, side by side: their origins. NULL: of one. Not in the text. */
    const char *const *part;
    int n_parts;
};

struct sp_node {
    sp_op_id op;
    const char *name;
    /* Path of PyTorch's module it is part of, where the exporter says it ("encoder.layer.0.query"); or NULL. */
    const char *module;
    int n_in, n_out;
    sp_value **in; /* NULL entries: absent optional inputs */
    sp_value **out;
    sp_attrs attrs;
};
/* What a user calls a constant: its name in the file. */
static inline const char *sp_initialiser_name(const sp_value *v)
{
    return v->origin ? v->origin : v->name;
}
/* Inputs and outputs as one list; NULL: an absent input. */
static inline int sp_node_slots(const sp_node *n)
{
    return n->n_in + n->n_out;
}
static inline sp_value *sp_node_slot(const sp_node *n, int i)
{
    return i < n->n_in ? n->in[i] : n->out[i - n->n_in];
}

typedef struct sp_bound { /* what a symbol may be; 0 to INT64_MAX where nobody says */
    const char *symbol;
    int64_t least, most;
} sp_bound;
/* Two sizes that a node takes for one and nothing proves to be: compared when sizes are known. */
typedef struct sp_must {
    const sp_expr *a, *b;
    const char *node;
} sp_must;
#define SP_GRAPH_MUSTS 256

struct sp_graph {
    sparta_ctx *cx;
    sp_arena *arena;
    const char *name;
    int n_values, n_nodes, n_inputs, n_outputs;
    sp_value **value; /* all of them, dead ones included */
    sp_node **node;   /* topological order */
    sp_value **input, **output;
    int value_capacity, node_capacity, input_capacity, output_capacity;
    int n_bounds, n_fixed;
    sp_bound *bound; /* room for SP_GRAPH_SYMBOLS; NULL: there are none */
    /* Symbols that were replaced by numbers, so that a second word about them is understood; not in the text. Room as above. */
    sp_bound *fixed;
    int n_musts;
    sp_must *must;   /* room for SP_GRAPH_MUSTS; NULL: there are none */
    sp_map *by_name; /* value name -> id */
    /* Data of constants that others made for this graph; freed with it; may be NULL. */
    sp_arena *adopted;
    int fresh;           /* number of the next fresh name */
    int64_t most_tokens; /* products have at most so many tokens; 0: not known; not in the text */
    int64_t folded;      /* multiplications that folding constants has taken, in all inferences together */
};

sparta_status sp_graph_create(sparta_ctx *cx, const char *name, sp_graph **out) SP_MUST;
void sp_graph_free(sp_graph *g);
/* A graph like it that can be changed by itself, and has ids and names in common with it. It borrows what never changes (names, constants,
 * expressions), so that the original must outlive it. */
sparta_status sp_graph_copy(const sp_graph *from, sp_graph **out) SP_MUST;

/* Building. Names are copied; a name already taken is E_FORMAT; name NULL makes a fresh one ("%12"). */
sparta_status sp_graph_add_value(sp_graph *g, const char *name, sp_value **out) SP_MUST;
/* Another name, which nothing else may have; a dead value is left with the old one, and the ids change places with the names. */
sparta_status sp_graph_rename(sp_graph *g, sp_value *v, const char *name) SP_MUST;
sparta_status sp_graph_add_input(sp_graph *g, const char *name, sparta_dtype dtype, const sp_dims *dims,
                                 sp_value **out) SP_MUST;
/* `tensor` (row-major) is copied as a struct; its data is borrowed, or copied into the arena when `copy`.
 * Also fills ints when small. */
sparta_status sp_graph_add_constant(sp_graph *g, const char *name, const sparta_tensor *tensor, bool copy,
                                    sp_value **out) SP_MUST;
/* The elements of a small constant of integers as expressions, for shape arithmetic. What no expression can say (large u64, the least
 * int64) leaves `ints` unknown; `constant` has it all the same. */
sparta_status sp_graph_read_ints(sp_graph *g, sp_value *v) SP_MUST;
sparta_status sp_graph_add_output(sp_graph *g, sp_value *v) SP_MUST;
/* Appends a node; outputs are fresh untyped values when out[i] is NULL on entry. attrs (NULL: none) are
 * copied deeply and checked with sp_graph_check_attrs. name NULL is "". `node` may be NULL. */
sparta_status sp_graph_add_node(sp_graph *g, sp_op_id op, const char *name, int n_in, sp_value *const *in,
                                int n_out, sp_value **out, const sp_attrs *attrs, sp_node **node) SP_MUST;
sp_value *sp_graph_find(const sp_graph *g, const char *name); /* or NULL */
/* Where a list of values (g->input, g->output) has that name; -1: nowhere. */
int sp_graph_named(sp_value *const *list, int n, const char *name);
/* The symbol is `least` to `most`; of several bounds on it all count. */
sparta_status sp_graph_add_bound(sp_graph *g, const char *symbol, int64_t least, int64_t most) SP_MUST;
/* What was said of the symbol; its tables may hold less (sp_symbol_bound). */
sp_bound sp_graph_bound(const sp_graph *g, const char *symbol);
/* Is the size within? Else E_USAGE: "dim n: 4 is outside of what the model takes ...; give 16 to 512". */
sparta_status sp_bound_check(sparta_ctx *cx, const sp_bound *b, int64_t size) SP_MUST;
/* The symbol was replaced by `size`, or so it is said. */
sparta_status sp_graph_add_fixed(sp_graph *g, const char *symbol, int64_t size) SP_MUST;
/* Two sizes that must be equal; one that is there already is not added again. */
sparta_status sp_graph_add_must(sp_graph *g, const sp_expr *a, const sp_expr *b, const char *node) SP_MUST;
/* Is every must so at these sizes? Else E_SHAPE: before anything runs, since whatever runs relies on it. */
sparta_status sp_graph_check_musts(sparta_ctx *cx, const sp_graph *g, const sp_bindings *sizes) SP_MUST;
/* Set an attribute, in place of one of its name; without one. The list is new, its contents are those given. */
sparta_status sp_graph_set_attr(sp_graph *g, sp_node *n, const sp_attr *attr) SP_MUST;
sparta_status sp_graph_drop_attr(sp_graph *g, sp_node *n, const char *name) SP_MUST;
/* Is it an attribute of a plan that changes nothing about what is computed? */
bool sp_graph_is_annotation(const char *name);
/* Every attribute is a row of attributes.def (else E_UNSUPPORTED), of its kind and given once (else
 * E_FORMAT). */
sparta_status sp_graph_check_attrs(sparta_ctx *cx, sp_op_id op, const sp_attrs *attrs) SP_MUST;

/* Changing. */
/* Does a node multiply by a weight, or activations by each other? Such nodes are the layers of reports. */
bool sp_node_is_product(const sp_node *n);
/* Is it the product that kernels run, with a packed weight and an epilogue (builtin/multiply.def)? */
bool sp_node_is_fused(const sp_node *n);
/* Does it multiply by a matrix, its second operand, and does that lie as (k, n) = (inputs, outputs)? */
bool sp_node_takes_matrix(const sp_node *n, bool *turned);
int sp_graph_uses(const sp_graph *g, const sp_value *v); /* nodes (counted per input slot) and outputs */
/* used[id] is set for every value that a node or the caller of the model reads. */
void sp_graph_used(const sp_graph *g, bool *used);
/* Who has a value, as an input or an output: nodes by their place in the graph, once for each slot, user[first[id]] to
 * user[first[id + 1]]. True until the graph changes. */
typedef struct sp_users {
    int *first, *user;
} sp_users;
sparta_status sp_graph_users(const sp_graph *g, sp_arena *arena, sp_users *out) SP_MUST;
/* All uses, by an index that was made before: whoever came to have `old` since is not seen, which in topological order is nobody. An output keeps
 * its name and id: `by` takes them over. Where it cannot (it is an input, a constant or an output itself) the output stays with `old`, and
 * whoever produces it lives on. */
void sp_graph_replace(sp_graph *g, const sp_users *u, sp_value *old, sp_value *by);
/* A node of the graph (just added, say) to the place before node[at], 0 <= at <= n_nodes. */
void sp_graph_move_node(sp_graph *g, int at, sp_node *node);
/* Input i is `v`; inputs up to it that the node did not have are absent. */
sparta_status sp_graph_set_input(sp_graph *g, sp_node *n, int i, sp_value *v) SP_MUST;
void sp_graph_remove_node(sp_graph *g, int at);
sparta_status sp_graph_sweep(sp_graph *g) SP_MUST; /* drop nodes nobody uses; keep the order */
/* Stable topological sort; a cycle is E_FORMAT naming a node on it. */
sparta_status sp_graph_sort(sp_graph *g) SP_MUST;
/* Checks every invariant above; E_INTERNAL names the broken one. */
sparta_status sp_graph_verify(const sp_graph *g) SP_MUST;

void sp_graph_print(const sp_graph *g, sp_text *out);
/* The same with constants of integers (indices, sizes) of at most `integers` elements written out. */
void sp_graph_print_integers(const sp_graph *g, int64_t integers, sp_text *out);
/* Gives the contents of a large constant by its @name: `out` comes with the dtype and dims that the text
 * declares and data NULL; the callee sets data, or the whole view, which is then compared with what was
 * declared. The data is borrowed. */
typedef sparta_status (*sp_graph_fetch)(void *arg, const char *name, sparta_tensor *out);
sparta_status sp_graph_parse(sparta_ctx *cx, const char *text, sp_graph_fetch fetch, void *arg,
                             sp_graph **out) SP_MUST;

#endif
