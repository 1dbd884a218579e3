/* graph.c: building a graph: values, constants, nodes, outputs. Everything a value or node points to lives in
 * the graph's arena; the lists of pointers are blocks of their own, because they grow. */
#include "graph/graph.h"
#include <string.h>

#define MOST (1 << 24) /* values or nodes: far above any model, far below int */

sparta_status sparta_graph_create(sparta_ctx *cx, const char *name, sparta_graph **out)
{
    sparta_graph *g = sparta_zalloc(cx, sizeof *g);
    SPARTA_NEED(cx, g);
    g->cx = cx;
    g->arena = sparta_arena_create(cx);
    if (g->arena) g->name = sparta_arena_string(g->arena, name ? name : "");
    if (g->name) g->by_name = sparta_map_create(cx);
    if (!g->by_name) {
        sparta_graph_free(g);
        return sparta_ctx_status(cx);
    }
    *out = g;
    return SPARTA_OK;
}

void sparta_graph_free(sparta_graph *g)
{
    if (!g) return;
    if (g->by_name) sparta_map_free(g->by_name);
    if (g->arena) sparta_arena_free(g->arena);
    sparta_arena_free(g->adopted);
    sparta_free(g->cx, g->value);
    sparta_free(g->cx, g->node);
    sparta_free(g->cx, g->input);
    sparta_free(g->cx, g->output);
    sparta_free(g->cx, g);
}

/* Room for one more pointer; NULL after a message. */
static void *grow(sparta_ctx *cx, void *list, int n, int *capacity)
{
    if (n < *capacity) return list;
    if (n >= MOST) {
        sparta_fail(cx, SPARTA_E_LIMIT, "graph: more than %d values or nodes; split the model", MOST);
        return NULL;
    }
    int wanted = *capacity ? *capacity * 2 : 32;
    void *grown = sparta_realloc(cx, list, (size_t)wanted * sizeof(void *));
    if (grown) *capacity = wanted;
    return grown;
}

sparta_value *sparta_graph_find(const sparta_graph *g, const char *name)
{
    int64_t id;
    return sparta_map_get(g->by_name, name, &id) ? g->value[id] : NULL;
}

/* The counter never goes back, so that a file full of names like ours costs no more than one look at each. */
static char *fresh_name(sparta_graph *g)
{
    for (;;) {
        char *name = sparta_arena_printf(g->arena, "%%%d", g->fresh++);
        if (!name || !sparta_graph_find(g, name)) return name;
    }
}

sparta_status sparta_graph_add_value(sparta_graph *g, const char *name, sparta_value **out)
{
    if (name && sparta_graph_find(g, name))
        return sparta_fail(g->cx, SPARTA_E_FORMAT,
                           "value '%.200s': the name is used twice; names of values must differ", name);
    sparta_value **list = grow(g->cx, g->value, g->n_values, &g->value_capacity);
    SPARTA_NEED(g->cx, list);
    g->value = list;
    sparta_value *v = sparta_arena_alloc(g->arena, sizeof *v);
    SPARTA_NEED(g->cx, v);
    v->name = name ? sparta_arena_string(g->arena, name) : fresh_name(g);
    SPARTA_NEED(g->cx, v->name);
    v->id = g->n_values;
    SPARTA_TRY(sparta_map_put(g->by_name, v->name, v->id));
    g->value[g->n_values++] = v;
    *out = v;
    return SPARTA_OK;
}

sparta_status sparta_graph_add_input(sparta_graph *g, const char *name, sparta_dtype dtype,
                                     const sparta_dims *dims, sparta_value **out)
{
    sparta_value **list = grow(g->cx, g->input, g->n_inputs, &g->input_capacity);
    SPARTA_NEED(g->cx, list);
    g->input = list;
    sparta_value *v;
    SPARTA_TRY(sparta_graph_add_value(g, name, &v));
    v->dtype = dtype;
    v->dims = *dims;
    v->typed = true;
    v->is_input = true;
    g->input[g->n_inputs++] = v;
    if (out) *out = v;
    return SPARTA_OK;
}

sparta_status sparta_graph_add_output(sparta_graph *g, sparta_value *v)
{
    if (v->is_output)
        return sparta_fail(g->cx, SPARTA_E_FORMAT, "output '%.200s': listed twice; outputs must differ",
                           v->name);
    sparta_value **list = grow(g->cx, g->output, g->n_outputs, &g->output_capacity);
    SPARTA_NEED(g->cx, list);
    g->output = list;
    v->is_output = true;
    g->output[g->n_outputs++] = v;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ constants */

/* A copy of the view; of the elements too when `copy`. NULL after a message. */
static const sparta_tensor *keep_tensor(sparta_graph *g, const sparta_tensor *from, bool copy)
{
    sparta_tensor *t = sparta_arena_alloc(g->arena, sizeof *t);
    if (!t) return NULL;
    *t = *from;
    if (!copy) return t;
    if (sparta_tensor_alloc_in(g->arena, from->dtype, from->rank, from->dim, t) != SPARTA_OK) return NULL;
    return sparta_tensor_copy(g->cx, from, t) == SPARTA_OK ? t : NULL;
}

static sparta_status constant_dims(sparta_graph *g, const sparta_tensor *t, sparta_dims *out)
{
    sparta_dims d = {.rank = t->rank};
    for (int i = 0; i < t->rank; i++) {
        d.dim[i] = sparta_expr_const(g->arena, t->dim[i]);
        SPARTA_NEED(g->cx, d.dim[i]);
    }
    *out = d;
    return SPARTA_OK;
}

/* The elements as expressions, for shape arithmetic. What no expression can say (large u64, the least int64)
 * leaves `ints` unknown; `constant` has it all the same. */
static sparta_status constant_ints(sparta_graph *g, sparta_value *v)
{
    const sparta_tensor *t = v->constant;
    int64_t n = sparta_tensor_elements(t);
    if (!t->data || sparta_dtype_is_float(t->dtype) || n > SPARTA_GRAPH_INTS) return SPARTA_OK;
    const sparta_expr **ints = sparta_arena_array(g->arena, (size_t)n, sizeof *ints);
    SPARTA_NEED(g->cx, ints);
    for (int64_t i = 0; i < n; i++) {
        int64_t x = sparta_element_get_int(t->dtype, t->data, i);
        if (x == INT64_MIN || (t->dtype == SPARTA_U64 && x < 0)) return SPARTA_OK;
        ints[i] = sparta_expr_const(g->arena, x);
        SPARTA_NEED(g->cx, ints[i]);
    }
    v->ints = ints;
    v->n_ints = (int)n;
    return SPARTA_OK;
}

sparta_status sparta_graph_add_constant(sparta_graph *g, const char *name, const sparta_tensor *tensor,
                                        bool copy, sparta_value **out)
{
    if (tensor->rank < 0 || tensor->rank > SPARTA_RANK || sparta_tensor_elements(tensor) < 0 ||
        (!copy && !sparta_tensor_contiguous(tensor)))
        return sparta_fail(g->cx, SPARTA_E_INTERNAL,
                           "constant '%.200s': the tensor is not row-major; copy it first", name ? name : "");
    sparta_value *v;
    SPARTA_TRY(sparta_graph_add_value(g, name, &v));
    v->constant = keep_tensor(g, tensor, copy);
    SPARTA_NEED(g->cx, v->constant);
    SPARTA_TRY(constant_dims(g, tensor, &v->dims));
    v->dtype = tensor->dtype;
    v->typed = true;
    SPARTA_TRY(constant_ints(g, v));
    if (out) *out = v;
    return SPARTA_OK;
}

sparta_status sparta_graph_add_bound(sparta_graph *g, const char *symbol, int64_t most)
{
    for (int i = 0; i < g->n_bounds; i++)
        if (strcmp(g->bound[i].symbol, symbol) == 0) {
            g->bound[i].most = SPARTA_MIN(g->bound[i].most, most);
            return SPARTA_OK;
        }
    if (g->n_bounds == SPARTA_GRAPH_BOUNDS)
        return sparta_fail(g->cx, SPARTA_E_LIMIT, "graph: more than %d bounds of symbols",
                           SPARTA_GRAPH_BOUNDS);
    const char *name = sparta_arena_string(g->arena, symbol);
    SPARTA_NEED(g->cx, name);
    g->bound[g->n_bounds++] = (sparta_bound){name, most};
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ nodes */

typedef struct attribute_row {
    sparta_op_id op;
    const char *name;
    sparta_attr_kind kind;
} attribute_row;

static const attribute_row attributes[] = {
#define SPARTA_ATTRIBUTE(op, name, kind) {SPARTA_OP_##op, name, SPARTA_ATTR_##kind},
#include "graph/attributes.def"
#undef SPARTA_ATTRIBUTE
};

static const attribute_row annotations[] = {
#define SPARTA_ATTRIBUTE(op, name, kind)
#define SPARTA_ANNOTATION(name, kind) {SPARTA_OPS, name, SPARTA_ATTR_##kind},
#include "graph/attributes.def"
#undef SPARTA_ATTRIBUTE
};

static const attribute_row *find_attribute(sparta_op_id op, const char *name)
{
    for (size_t i = 0; i < SPARTA_COUNT(attributes); i++)
        if (attributes[i].op == op && strcmp(attributes[i].name, name) == 0) return &attributes[i];
    for (size_t i = 0; i < SPARTA_COUNT(annotations); i++)
        if (strcmp(annotations[i].name, name) == 0) return &annotations[i];
    return NULL;
}

bool sparta_graph_is_annotation(const char *name)
{
    for (size_t i = 0; i < SPARTA_COUNT(annotations); i++)
        if (strcmp(annotations[i].name, name) == 0) return true;
    return false;
}

sparta_status sparta_graph_check_attrs(sparta_ctx *cx, sparta_op_id op, const sparta_attrs *attrs)
{
    static const char *const kinds[] = {"an int", "a float", "a string", "ints", "floats", "a tensor"};
    const char *name = sparta_builtin_row(op)->name;
    for (int i = 0; i < attrs->n; i++) {
        const sparta_attr *a = &attrs->attr[i];
        const attribute_row *row = find_attribute(op, a->name);
        if (!row)
            return sparta_fail(cx, SPARTA_E_UNSUPPORTED,
                               "%s: attribute '%.200s' is not known; export the model without it", name,
                               a->name);
        if (row->kind != a->kind)
            return sparta_fail(cx, SPARTA_E_FORMAT, "%s: attribute '%s' is %s and must be %s", name, a->name,
                               kinds[a->kind], kinds[row->kind]);
        if (sparta_attr_find(attrs, a->name) !=
            a) /* rows are few, so this ends at the second duplicate at the latest */
            return sparta_fail(cx, SPARTA_E_FORMAT, "%s: attribute '%s' is given twice", name, a->name);
    }
    return SPARTA_OK;
}

static sparta_status copy_attr(sparta_graph *g, sparta_attr *a)
{
    a->name = sparta_arena_string(g->arena, a->name);
    SPARTA_NEED(g->cx, a->name);
    if (a->kind == SPARTA_ATTR_STRING) {
        a->s = sparta_arena_string(g->arena, a->s);
        SPARTA_NEED(g->cx, a->s);
    } else if (a->kind == SPARTA_ATTR_INTS) {
        int64_t *ints = sparta_arena_array(g->arena, (size_t)a->n, sizeof *ints);
        SPARTA_NEED(g->cx, ints);
        if (a->n) memcpy(ints, a->ints, (size_t)a->n * sizeof *ints);
        a->ints = ints;
    } else if (a->kind == SPARTA_ATTR_FLOATS) {
        float *floats = sparta_arena_array(g->arena, (size_t)a->n, sizeof *floats);
        SPARTA_NEED(g->cx, floats);
        if (a->n) memcpy(floats, a->floats, (size_t)a->n * sizeof *floats);
        a->floats = floats;
    } else if (a->kind == SPARTA_ATTR_TENSOR) {
        a->tensor = keep_tensor(g, a->tensor, true);
        SPARTA_NEED(g->cx, a->tensor);
    }
    return SPARTA_OK;
}

static sparta_status copy_attrs(sparta_graph *g, const sparta_attrs *from, sparta_attrs *out)
{
    sparta_attr *list = sparta_arena_array(g->arena, (size_t)from->n, sizeof *list);
    SPARTA_NEED(g->cx, list);
    for (int i = 0; i < from->n; i++) {
        list[i] = from->attr[i];
        SPARTA_TRY(copy_attr(g, &list[i]));
    }
    *out = (sparta_attrs){from->n, list};
    return SPARTA_OK;
}

/* What the operator's row and the graph's law (one producer each) ask of a node. */
static sparta_status check_node(sparta_graph *g, const sparta_builtin *row, const char *name, int n_in,
                                sparta_value *const *in, int n_out, sparta_value *const *out)
{
    if (n_in < row->min_in || (row->max_in >= 0 && n_in > row->max_in))
        return sparta_fail(g->cx, SPARTA_E_FORMAT, "%s '%.200s': %d inputs; it takes %d to %d", row->name,
                           name, n_in, row->min_in, row->max_in >= 0 ? row->max_in : MOST);
    if (n_out < 1 || (row->max_out >= 0 && n_out > row->max_out))
        return sparta_fail(g->cx, SPARTA_E_FORMAT, "%s '%.200s': %d outputs; it has 1 to %d", row->name, name,
                           n_out, row->max_out >= 0 ? row->max_out : MOST);
    int needed = row->max_in >= 0 ? row->min_in : n_in; /* lists (Concat) have no gaps */
    for (int i = 0; i < needed; i++)
        if (!in[i])
            return sparta_fail(g->cx, SPARTA_E_FORMAT, "%s '%.200s': input %d is absent and is not optional",
                               row->name, name, i);
    for (int i = 0; i < n_out; i++)
        if (out[i] && (out[i]->producer || out[i]->is_input || out[i]->constant))
            return sparta_fail(g->cx, SPARTA_E_FORMAT,
                               "%s '%.200s': output '%.200s' is already defined elsewhere", row->name, name,
                               out[i]->name);
    return SPARTA_OK;
}

static sparta_status fill_node(sparta_graph *g, sparta_node *n, const char *name, sparta_value *const *in,
                               const sparta_attrs *attrs)
{
    n->name = sparta_arena_string(g->arena, name);
    SPARTA_NEED(g->cx, n->name);
    n->in = sparta_arena_array(g->arena, (size_t)n->n_in, sizeof *n->in);
    SPARTA_NEED(g->cx, n->in);
    if (n->n_in) memcpy(n->in, in, (size_t)n->n_in * sizeof *n->in);
    n->out = sparta_arena_array(g->arena, (size_t)n->n_out, sizeof *n->out);
    SPARTA_NEED(g->cx, n->out);
    return attrs ? copy_attrs(g, attrs, &n->attrs) : SPARTA_OK;
}

sparta_status sparta_graph_add_node(sparta_graph *g, sparta_op_id op, const char *name, int n_in,
                                    sparta_value *const *in, int n_out, sparta_value **out,
                                    const sparta_attrs *attrs, sparta_node **node)
{
    const sparta_builtin *row = sparta_builtin_row(op);
    name = name ? name : "";
    SPARTA_TRY(check_node(g, row, name, n_in, in, n_out, out));
    if (attrs && sparta_graph_check_attrs(g->cx, op, attrs) != SPARTA_OK)
        return sparta_fail_in(g->cx, "'%.200s'", name);
    sparta_node **list = grow(g->cx, g->node, g->n_nodes, &g->node_capacity);
    SPARTA_NEED(g->cx, list);
    g->node = list;
    sparta_node *n = sparta_arena_alloc(g->arena, sizeof *n);
    SPARTA_NEED(g->cx, n);
    *n = (sparta_node){.op = op, .n_in = n_in, .n_out = n_out};
    SPARTA_TRY(fill_node(g, n, name, in, attrs));
    for (int i = 0; i < n_out; i++) {
        n->out[i] = out[i];
        if (!out[i]) SPARTA_TRY(sparta_graph_add_value(g, NULL, &n->out[i]));
    }
    for (int i = 0; i < n_out; i++) {
        if (n->out[i]->producer == n) {
            for (int j = 0; j < i; j++) n->out[j]->producer = NULL;
            return sparta_fail(g->cx, SPARTA_E_FORMAT, "%s '%.200s': output '%.200s' is listed twice",
                               row->name, name, n->out[i]->name);
        }
        n->out[i]->producer = n;
        out[i] = n->out[i];
    }
    g->node[g->n_nodes++] = n;
    if (node) *node = n;
    return SPARTA_OK;
}
