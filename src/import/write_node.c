/* write_node.c: nodes as NodeProtos. ONNX operators are written as they are, the fused Linear as its pieces:
 *
 *     x, w -> [Transpose w] -> MatMul -> [Add bias] -> [activation] -> [Add residual]
 */
#include "import/write.h"
#include <string.h>

static void put_attribute(sparta_text *node, const sparta_attr *a)
{
    static const int types[] = {[SPARTA_ATTR_INT] = TYPE_INT,       [SPARTA_ATTR_FLOAT] = TYPE_FLOAT,
                                [SPARTA_ATTR_STRING] = TYPE_STRING, [SPARTA_ATTR_INTS] = TYPE_INTS,
                                [SPARTA_ATTR_FLOATS] = TYPE_FLOATS, [SPARTA_ATTR_TENSOR] = TYPE_TENSOR};
    sparta_text m;
    sparta_text_init(&m, node->cx);
    sparta_wire_put_string(&m, ATTRIBUTE_NAME, a->name);
    switch (a->kind) {
    case SPARTA_ATTR_INT: sparta_wire_put_int(&m, ATTRIBUTE_I, a->i); break;
    case SPARTA_ATTR_FLOAT: sparta_wire_put_float(&m, ATTRIBUTE_F, a->f); break;
    case SPARTA_ATTR_STRING: sparta_wire_put_string(&m, ATTRIBUTE_S, a->s); break;
    case SPARTA_ATTR_INTS:
        for (int i = 0; i < a->n; i++) sparta_wire_put_int(&m, ATTRIBUTE_INTS, a->ints[i]);
        break;
    case SPARTA_ATTR_FLOATS:
        for (int i = 0; i < a->n; i++) sparta_wire_put_float(&m, ATTRIBUTE_FLOATS, a->floats[i]);
        break;
    case SPARTA_ATTR_TENSOR: sparta_onnx_put_tensor(&m, ATTRIBUTE_T, a->tensor); break;
    }
    sparta_wire_put_int(&m, ATTRIBUTE_TYPE, types[a->kind]);
    sparta_wire_put_message(node, NODE_ATTRIBUTE, &m);
    sparta_text_free(&m);
}

/* One NodeProto, by names: "" is an absent input. */
typedef struct plain {
    const char *op, *name;
    int n_in, n_out;
    const char *const *in, *const *out;
    const sparta_attrs *attrs; /* NULL: none */
} plain;

static void put_plain(sparta_text *graph, const plain *p)
{
    sparta_text m;
    sparta_text_init(&m, graph->cx);
    for (int i = 0; i < p->n_in; i++) sparta_wire_put_string(&m, NODE_INPUT, p->in[i]);
    for (int i = 0; i < p->n_out; i++) sparta_wire_put_string(&m, NODE_OUTPUT, p->out[i]);
    if (*p->name) sparta_wire_put_string(&m, NODE_NAME, p->name);
    sparta_wire_put_string(&m, NODE_OP, p->op);
    for (int i = 0; p->attrs && i < p->attrs->n; i++) put_attribute(&m, &p->attrs->attr[i]);
    sparta_wire_put_message(graph, GRAPH_NODE, &m);
    sparta_text_free(&m);
}

/* ------------------------------------------------------------------ Linear */

typedef struct linear {
    sparta_text *graph;
    const sparta_graph *g;
    sparta_arena *a;
    const char *result; /* the name of the node's output */
    const char *name;
    const char *now; /* the name of what is computed so far */
    int left;        /* nodes still to come: the last writes `result` */
} linear;

/* A name that no value has: the output's with a suffix. NULL after a message. */
static const char *part_name(const linear *l, const char *op)
{
    const char *name = sparta_arena_printf(l->a, "%s/%s", l->result, op);
    for (int i = 2; name && sparta_graph_find(l->g, name); i++)
        name = sparta_arena_printf(l->a, "%s/%s.%d", l->result, op, i);
    return name;
}

/* now = op(now, other); `other` may be NULL. `part` tells apart two of one operator. */
static sparta_status step(linear *l, const char *op, const char *part, const char *other,
                          const sparta_attrs *attrs)
{
    const char *in[] = {l->now, other};
    const char *out = --l->left ? part_name(l, part) : l->result;
    SPARTA_NEED(l->graph->cx, out);
    const char *name = sparta_arena_printf(l->a, "%s/%s", l->name, part);
    SPARTA_NEED(l->graph->cx, name);
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
    for (size_t i = 0; i < SPARTA_COUNT(known); i++) {
        if (strcmp(known[i].name, activation) != 0) continue;
        sparta_attr a = {.name = "approximate", .kind = SPARTA_ATTR_STRING, .s = known[i].approximate};
        sparta_attrs attrs = {known[i].approximate ? 1 : 0, &a};
        return step(l, known[i].op, known[i].op, NULL, &attrs);
    }
    return sparta_fail(l->graph->cx, SPARTA_E_UNSUPPORTED,
                       "Linear '%.200s': activation '%.100s' is not known to ONNX", l->name, activation);
}

static sparta_status transpose_weight(linear *l, const char **w)
{
    static const int64_t order[] = {1, 0};
    const sparta_attr perm = {.name = "perm", .kind = SPARTA_ATTR_INTS, .n = 2, .ints = order};
    const sparta_attrs attrs = {1, &perm};
    const char *out = part_name(l, "Transpose");
    SPARTA_NEED(l->graph->cx, out);
    put_plain(l->graph, &(plain){"Transpose", "", 1, 1, w, &out, &attrs});
    *w = out;
    return SPARTA_OK;
}

static sparta_status put_linear(linear *l, const sparta_node *n)
{
    const sparta_value *bias = n->n_in > 2 ? n->in[2] : NULL, *residual = n->n_in > 3 ? n->in[3] : NULL;
    const char *activation = sparta_attr_string(&n->attrs, "activation", ""), *w = n->in[1]->name;
    l->now = n->in[0]->name;
    l->left = 1 + (bias != NULL) + (*activation != 0) + (residual != NULL);
    if (sparta_attr_int(&n->attrs, "transposed", 0)) SPARTA_TRY(transpose_weight(l, &w));
    SPARTA_TRY(step(l, "MatMul", "MatMul", w, NULL));
    if (bias) SPARTA_TRY(step(l, "Add", "Bias", bias->name, NULL));
    if (*activation) SPARTA_TRY(put_activation(l, activation));
    return residual ? step(l, "Add", "Residual", residual->name, NULL) : SPARTA_OK;
}

/* ------------------------------------------------------------------ any node */

static sparta_status put_onnx(sparta_text *graph, sparta_arena *a, const sparta_node *n)
{
    const char **names = sparta_arena_array(a, (size_t)n->n_in + (size_t)n->n_out, sizeof *names);
    SPARTA_NEED(graph->cx, names);
    for (int i = 0; i < n->n_in; i++) names[i] = n->in[i] ? n->in[i]->name : "";
    for (int i = 0; i < n->n_out; i++) names[n->n_in + i] = n->out[i]->name;
    put_plain(graph, &(plain){sparta_builtin_row(n->op)->name, n->name, n->n_in, n->n_out, names,
                              names + n->n_in, &n->attrs});
    return SPARTA_OK;
}

sparta_status sparta_onnx_put_node(sparta_text *graph, const sparta_graph *g, const sparta_node *n)
{
    const sparta_builtin *row = sparta_builtin_row(n->op);
    if (*row->domain && n->op != SPARTA_OP_Linear)
        return sparta_fail(graph->cx, SPARTA_E_UNSUPPORTED,
                           "%s '%.200s': ONNX has no such operator; write the graph before it is fused",
                           row->name, n->name);
    sparta_arena *a = sparta_arena_create(graph->cx);
    SPARTA_NEED(graph->cx, a);
    linear l = {.graph = graph, .g = g, .a = a, .result = n->out[0]->name, .name = n->name};
    sparta_status status = n->op == SPARTA_OP_Linear ? put_linear(&l, n) : put_onnx(graph, a, n);
    sparta_arena_free(a);
    return status;
}
