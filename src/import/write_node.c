/* write_node.c: nodes as NodeProtos. ONNX operators are written as they are, the fused Linear as its pieces:
 *
 *     x, w -> [Transpose w] -> MatMul -> a node for each word of its epilogue
 *
 * A name that an earlier node has gets a number: layers.0, layers.0.2, ...
 */
#include "import/write.h"
#include "builtin/epilogue.h"
#include <string.h>

static void put_attribute(sp_text *node, const sp_attr *a)
{
    static const int types[] = {
        [SP_ATTR_INT] = TYPE_INT,   [SP_ATTR_FLOAT] = TYPE_FLOAT,   [SP_ATTR_STRING] = TYPE_STRING,
        [SP_ATTR_INTS] = TYPE_INTS, [SP_ATTR_FLOATS] = TYPE_FLOATS, [SP_ATTR_TENSOR] = TYPE_TENSOR};
    sp_text m;
    sp_text_init(&m, node->cx);
    sp_wire_put_string(&m, ATTRIBUTE_NAME, a->name);
    switch (a->kind) {
    case SP_ATTR_INT: sp_wire_put_int(&m, ATTRIBUTE_I, a->i); break;
    case SP_ATTR_FLOAT: sp_wire_put_float(&m, ATTRIBUTE_F, a->f); break;
    case SP_ATTR_STRING: sp_wire_put_string(&m, ATTRIBUTE_S, a->s); break;
    case SP_ATTR_INTS:
        for (int i = 0; i < a->n; i++) sp_wire_put_int(&m, ATTRIBUTE_INTS, a->ints[i]);
        break;
    case SP_ATTR_FLOATS:
        for (int i = 0; i < a->n; i++) sp_wire_put_float(&m, ATTRIBUTE_FLOATS, a->floats[i]);
        break;
    case SP_ATTR_TENSOR: sp_onnx_put_tensor(&m, ATTRIBUTE_T, a->tensor); break;
    }
    sp_wire_put_int(&m, ATTRIBUTE_TYPE, types[a->kind]);
    sp_wire_put_message(node, NODE_ATTRIBUTE, &m);
    sp_text_free(&m);
}

/* ------------------------------------------------------------------ names */

typedef struct nodes {
    sp_text *graph;
    const sp_graph *g;
    sp_arena *a;   /* of all that is named here: the map borrows its keys */
    sp_map *names; /* of nodes -> how many were given away of it; 0: none yet */
} nodes;

/* Names that the graph has stay with the first node that has them. */
static sparta_status collect_names(nodes *to)
{
    for (int i = 0; i < to->g->n_nodes; i++)
        if (*to->g->node[i]->name) SP_TRY(sp_map_put(to->names, to->g->node[i]->name, 0));
    return SPARTA_OK;
}

/* The name, or one made of it that no other node has. */
static sparta_status unique(nodes *to, const char *name, const char **out)
{
    int64_t given = 0;
    sp_map_get(to->names, name, &given);
    *out = name;
    while (given) {
        *out = sp_arena_printf(to->a, "%s.%ld", name, (long)++given);
        SP_NEED(to->graph->cx, *out);
        if (!sp_map_get(to->names, *out, NULL)) break;
    }
    if (given) SP_TRY(sp_map_put(to->names, *out, 1));
    return sp_map_put(to->names, name, SP_MAX(given, 1));
}

/* One NodeProto, by names: "" is an absent input. */
typedef struct plain {
    const char *op, *name;
    int n_in, n_out;
    const char *const *in, *const *out;
    const sp_attrs *attrs; /* NULL: none */
} plain;

static sparta_status put_plain(nodes *to, const plain *p)
{
    sparta_status status = SPARTA_OK;
    const char *name = p->name;
    sp_text m;
    sp_text_init(&m, to->graph->cx);
    for (int i = 0; i < p->n_in; i++) sp_wire_put_string(&m, NODE_INPUT, p->in[i]);
    for (int i = 0; i < p->n_out; i++) sp_wire_put_string(&m, NODE_OUTPUT, p->out[i]);
    if (*name) status = unique(to, p->name, &name);
    if (status == SPARTA_OK && *name) sp_wire_put_string(&m, NODE_NAME, name);
    sp_wire_put_string(&m, NODE_OP, p->op);
    for (int i = 0; p->attrs && i < p->attrs->n; i++) put_attribute(&m, &p->attrs->attr[i]);
    sp_wire_put_message(to->graph, GRAPH_NODE, &m);
    sp_text_free(&m);
    return status;
}

/* ------------------------------------------------------------------ Linear */

typedef struct linear {
    nodes *to;
    const char *result; /* the name of the node's output */
    const char *name;
    const char *now; /* the name of what is computed so far */
    int left;        /* nodes still to come: the last writes `result` */
} linear;

/* A name that no value has: the output's with a suffix. NULL after a message. */
static const char *part_name(const linear *l, const char *op)
{
    const char *name = sp_arena_printf(l->to->a, "%s/%s", l->result, op);
    for (int i = 2; name && sp_graph_find(l->to->g, name); i++)
        name = sp_arena_printf(l->to->a, "%s/%s.%d", l->result, op, i);
    return name;
}

/* now = op(now, other); `other` may be NULL. `part` tells apart two of one operator. */
static sparta_status step(linear *l, const char *op, const char *part, const char *other,
                          const sp_attrs *attrs)
{
    const char *in[] = {l->now, other};
    const char *out = --l->left ? part_name(l, part) : l->result;
    SP_NEED(l->to->graph->cx, out);
    const char *name = sp_arena_printf(l->to->a, "%s/%s", l->name, part);
    SP_NEED(l->to->graph->cx, name);
    SP_TRY(put_plain(l->to, &(plain){op, name, other ? 2 : 1, 1, in, &out, attrs}));
    l->now = out;
    return SPARTA_OK;
}

/* One word of the epilogue. */
static sparta_status put_word(linear *l, const sp_node *n, const sp_word *word)
{
    const char *op = sp_builtin_row(word->op)->name;
    if (word->slot) return step(l, op, word->slot == 2 ? "Bias" : "Residual", n->in[word->slot]->name, NULL);
    sp_attr a = {.name = "approximate", .kind = SP_ATTR_STRING, .s = word->approximate};
    if (word->alpha != 0) a = (sp_attr){.name = "alpha", .kind = SP_ATTR_FLOAT, .f = word->alpha};
    return step(l, op, op, NULL, &(sp_attrs){word->approximate || word->alpha != 0, &a});
}

static sparta_status transpose_weight(linear *l, const char **w)
{
    static const int64_t order[] = {1, 0};
    const sp_attr perm = {.name = "perm", .kind = SP_ATTR_INTS, .n = 2, .ints = order};
    const sp_attrs attrs = {1, &perm};
    const char *out = part_name(l, "Transpose");
    SP_NEED(l->to->graph->cx, out);
    SP_TRY(put_plain(l->to, &(plain){"Transpose", "", 1, 1, w, &out, &attrs}));
    *w = out;
    return SPARTA_OK;
}

static sparta_status put_linear(linear *l, const sp_node *n)
{
    const char *w = n->in[1]->name;
    sp_words words;
    const char *problem = sp_words_of(&n->attrs, n->n_in > 2 && n->in[2], n->n_in > 3 && n->in[3], &words);
    if (problem)
        return sp_fail(l->to->graph->cx, SPARTA_E_UNSUPPORTED, "Linear '%.200s': %s", l->name, problem);
    l->now = n->in[0]->name;
    l->left = 1 + words.n;
    if (sp_attr_int(&n->attrs, "transposed", 0)) SP_TRY(transpose_weight(l, &w));
    SP_TRY(step(l, "MatMul", "MatMul", w, NULL));
    for (int i = 0; i < words.n; i++) SP_TRY(put_word(l, n, sp_word_row(words.word[i])));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ any node */

static sparta_status put_onnx(nodes *to, const sp_node *n)
{
    const char **names = sp_arena_array(to->a, (size_t)n->n_in + (size_t)n->n_out, sizeof *names);
    SP_NEED(to->graph->cx, names);
    for (int i = 0; i < n->n_in; i++) names[i] = n->in[i] ? n->in[i]->name : "";
    for (int i = 0; i < n->n_out; i++) names[n->n_in + i] = n->out[i]->name;
    return put_plain(to, &(plain){sp_builtin_row(n->op)->name, n->name, n->n_in, n->n_out, names,
                                  names + n->n_in, &n->attrs});
}

static sparta_status put_node(nodes *to, const sp_node *n)
{
    const sp_builtin *row = sp_builtin_row(n->op);
    if (*row->domain && n->op != SP_OP_Linear)
        return sp_fail(to->graph->cx, SPARTA_E_UNSUPPORTED, "%s '%.200s': ONNX has no such operator; %s",
                       row->name, n->name,
                       n->op == SP_OP_Sparsify
                           ? "what a schedule sparsifies as the model runs is for packages: leave it out here"
                           : "write the graph before it is fused");
    linear l = {.to = to, .result = n->out[0]->name, .name = n->name};
    return n->op == SP_OP_Linear ? put_linear(&l, n) : put_onnx(to, n);
}

sparta_status sp_onnx_put_nodes(sp_text *graph, const sp_graph *g)
{
    nodes to = {graph, g, sp_arena_create(graph->cx), NULL};
    SP_NEED(graph->cx, to.a);
    to.names = sp_map_create(graph->cx);
    sparta_status status = to.names ? collect_names(&to) : sp_ctx_status(graph->cx);
    for (int i = 0; i < g->n_nodes && status == SPARTA_OK; i++) status = put_node(&to, g->node[i]);
    sp_map_free(to.names);
    sp_arena_free(to.a);
    return status;
}
