/* write_node.c: nodes as NodeProtos. ONNX operators are written as they are, the fused Linear as its pieces:
 *
 *     x, w -> [Transpose w] -> MatMul -> [Add bias] -> [activation] -> [Add residual]
 */
#include "import/write.h"
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

/* One NodeProto, by names: "" is an absent input. */
typedef struct plain {
    const char *op, *name;
    int n_in, n_out;
    const char *const *in, *const *out;
    const sp_attrs *attrs; /* NULL: none */
} plain;

static void put_plain(sp_text *graph, const plain *p)
{
    sp_text m;
    sp_text_init(&m, graph->cx);
    for (int i = 0; i < p->n_in; i++) sp_wire_put_string(&m, NODE_INPUT, p->in[i]);
    for (int i = 0; i < p->n_out; i++) sp_wire_put_string(&m, NODE_OUTPUT, p->out[i]);
    if (*p->name) sp_wire_put_string(&m, NODE_NAME, p->name);
    sp_wire_put_string(&m, NODE_OP, p->op);
    for (int i = 0; p->attrs && i < p->attrs->n; i++) put_attribute(&m, &p->attrs->attr[i]);
    sp_wire_put_message(graph, GRAPH_NODE, &m);
    sp_text_free(&m);
}

/* ------------------------------------------------------------------ Linear */

typedef struct linear {
    sp_text *graph;
    const sp_graph *g;
    sp_arena *a;
    const char *result; /* the name of the node's output */
    const char *name;
    const char *now; /* the name of what is computed so far */
    int left;        /* nodes still to come: the last writes `result` */
} linear;

/* A name that no value has: the output's with a suffix. NULL after a message. */
static const char *part_name(const linear *l, const char *op)
{
    const char *name = sp_arena_printf(l->a, "%s/%s", l->result, op);
    for (int i = 2; name && sp_graph_find(l->g, name); i++)
        name = sp_arena_printf(l->a, "%s/%s.%d", l->result, op, i);
    return name;
}

/* now = op(now, other); `other` may be NULL. `part` tells apart two of one operator. */
static sparta_status step(linear *l, const char *op, const char *part, const char *other,
                          const sp_attrs *attrs)
{
    const char *in[] = {l->now, other};
    const char *out = --l->left ? part_name(l, part) : l->result;
    SP_NEED(l->graph->cx, out);
    const char *name = sp_arena_printf(l->a, "%s/%s", l->name, part);
    SP_NEED(l->graph->cx, name);
    put_plain(l->graph, &(plain){op, name, other ? 2 : 1, 1, in, &out, attrs});
    l->now = out;
    return SPARTA_OK;
}

static sparta_status put_activation(linear *l, const char *activation)
{
    static const struct {
        const char *name, *op, *approximate;
    } known[] = {
        {"relu", "Relu", NULL}, {"gelu", "Gelu", "none"},     {"gelu_tanh", "Gelu", "tanh"},
        {"tanh", "Tanh", NULL}, {"sigmoid", "Sigmoid", NULL},
    };
    for (size_t i = 0; i < SP_COUNT(known); i++) {
        if (strcmp(known[i].name, activation) != 0) continue;
        sp_attr a = {.name = "approximate", .kind = SP_ATTR_STRING, .s = known[i].approximate};
        sp_attrs attrs = {known[i].approximate ? 1 : 0, &a};
        return step(l, known[i].op, known[i].op, NULL, &attrs);
    }
    return sp_fail(l->graph->cx, SPARTA_E_UNSUPPORTED,
                   "Linear '%.200s': activation '%.100s' is not known to ONNX", l->name, activation);
}

static sparta_status transpose_weight(linear *l, const char **w)
{
    static const int64_t order[] = {1, 0};
    const sp_attr perm = {.name = "perm", .kind = SP_ATTR_INTS, .n = 2, .ints = order};
    const sp_attrs attrs = {1, &perm};
    const char *out = part_name(l, "Transpose");
    SP_NEED(l->graph->cx, out);
    put_plain(l->graph, &(plain){"Transpose", "", 1, 1, w, &out, &attrs});
    *w = out;
    return SPARTA_OK;
}

static sparta_status put_linear(linear *l, const sp_node *n)
{
    const sp_value *bias = n->n_in > 2 ? n->in[2] : NULL, *residual = n->n_in > 3 ? n->in[3] : NULL;
    const char *activation = sp_attr_string(&n->attrs, "activation", ""), *w = n->in[1]->name;
    l->now = n->in[0]->name;
    l->left = 1 + (bias != NULL) + (*activation != 0) + (residual != NULL);
    if (sp_attr_int(&n->attrs, "transposed", 0)) SP_TRY(transpose_weight(l, &w));
    SP_TRY(step(l, "MatMul", "MatMul", w, NULL));
    if (bias) SP_TRY(step(l, "Add", "Bias", bias->name, NULL));
    if (*activation) SP_TRY(put_activation(l, activation));
    return residual ? step(l, "Add", "Residual", residual->name, NULL) : SPARTA_OK;
}

/* ------------------------------------------------------------------ any node */

static sparta_status put_onnx(sp_text *graph, sp_arena *a, const sp_node *n)
{
    const char **names = sp_arena_array(a, (size_t)n->n_in + (size_t)n->n_out, sizeof *names);
    SP_NEED(graph->cx, names);
    for (int i = 0; i < n->n_in; i++) names[i] = n->in[i] ? n->in[i]->name : "";
    for (int i = 0; i < n->n_out; i++) names[n->n_in + i] = n->out[i]->name;
    put_plain(graph, &(plain){sp_builtin_row(n->op)->name, n->name, n->n_in, n->n_out, names, names + n->n_in,
                              &n->attrs});
    return SPARTA_OK;
}

sparta_status sp_onnx_put_node(sp_text *graph, const sp_graph *g, const sp_node *n)
{
    const sp_builtin *row = sp_builtin_row(n->op);
    if (*row->domain && n->op != SP_OP_Linear)
        return sp_fail(graph->cx, SPARTA_E_UNSUPPORTED,
                       "%s '%.200s': ONNX has no such operator; write the graph before it is fused",
                       row->name, n->name);
    sp_arena *a = sp_arena_create(graph->cx);
    SP_NEED(graph->cx, a);
    linear l = {.graph = graph, .g = g, .a = a, .result = n->out[0]->name, .name = n->name};
    sparta_status status = n->op == SP_OP_Linear ? put_linear(&l, n) : put_onnx(graph, a, n);
    sp_arena_free(a);
    return status;
}
