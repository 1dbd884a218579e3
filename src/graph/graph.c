/* graph.c: building a graph: values, constants, nodes, outputs. Everything a value or node points to lives in
 * the graph's arena; the lists of pointers are blocks of their own, because they grow. */
#include "graph/graph.h"
#include <stdio.h>
#include <string.h>

#define MOST (1 << 24) /* values or nodes: far above any model, far below int */

sparta_status sp_graph_create(sparta_ctx *cx, const char *name, sp_graph **out)
{
    sp_graph *g = sp_zalloc(cx, sizeof *g);
    SP_NEED(cx, g);
    g->cx = cx;
    g->arena = sp_arena_create(cx);
    if (g->arena) g->name = sp_arena_string(g->arena, name ? name : "");
    if (g->name) g->by_name = sp_map_create(cx);
    if (!g->by_name) {
        sp_graph_free(g);
        return sp_ctx_status(cx);
    }
    *out = g;
    return SPARTA_OK;
}

void sp_graph_free(sp_graph *g)
{
    if (!g) return;
    if (g->by_name) sp_map_free(g->by_name);
    if (g->arena) sp_arena_free(g->arena);
    sp_arena_free(g->adopted);
    sp_free(g->cx, g->value);
    sp_free(g->cx, g->node);
    sp_free(g->cx, g->input);
    sp_free(g->cx, g->output);
    sp_free(g->cx, g);
}

/* Room for one more pointer; NULL after a message. */
static void *grow(sparta_ctx *cx, void *list, int n, int *capacity)
{
    if (n < *capacity) return list;
    if (n >= MOST) {
        sp_fail(cx, SPARTA_E_LIMIT, "graph: more than %d values or nodes; split the model", MOST);
        return NULL;
    }
    int wanted = *capacity ? *capacity * 2 : 32;
    void *grown = sp_realloc(cx, list, (size_t)wanted * sizeof(void *));
    if (grown) *capacity = wanted;
    return grown;
}

sp_value *sp_graph_find(const sp_graph *g, const char *name)
{
    int64_t id;
    return sp_map_get(g->by_name, name, &id) ? g->value[id] : NULL;
}

int sp_graph_named(sp_value *const *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i]->name, name)) return i;
    return -1;
}

/* The counter never goes back, so that a file full of names like ours costs no more than one look at each. */
static char *fresh_name(sp_graph *g)
{
    for (;;) {
        char *name = sp_arena_printf(g->arena, "%%%d", g->fresh++);
        if (!name || !sp_graph_find(g, name)) return name;
    }
}

sparta_status sp_graph_add_value(sp_graph *g, const char *name, sp_value **out)
{
    if (name && sp_graph_find(g, name))
        return sp_fail(g->cx, SPARTA_E_FORMAT,
                       "value '%.200s': the name is used twice; names of values must differ", name);
    sp_value **list = grow(g->cx, g->value, g->n_values, &g->value_capacity);
    SP_NEED(g->cx, list);
    g->value = list;
    sp_value *v = sp_arena_alloc(g->arena, sizeof *v);
    SP_NEED(g->cx, v);
    v->name = name ? sp_arena_string(g->arena, name) : fresh_name(g);
    SP_NEED(g->cx, v->name);
    v->id = g->n_values;
    SP_TRY(sp_map_put(g->by_name, v->name, v->id));
    g->value[g->n_values++] = v;
    *out = v;
    return SPARTA_OK;
}

sparta_status sp_graph_add_input(sp_graph *g, const char *name, sparta_dtype dtype, const sp_dims *dims,
                                 sp_value **out)
{
    sp_value **list = grow(g->cx, g->input, g->n_inputs, &g->input_capacity);
    SP_NEED(g->cx, list);
    g->input = list;
    sp_value *v;
    SP_TRY(sp_graph_add_value(g, name, &v));
    v->dtype = dtype;
    v->dims = *dims;
    v->typed = true;
    v->is_input = true;
    g->input[g->n_inputs++] = v;
    if (out) *out = v;
    return SPARTA_OK;
}

sparta_status sp_graph_add_output(sp_graph *g, sp_value *v)
{
    if (v->is_output)
        return sp_fail(g->cx, SPARTA_E_FORMAT, "output '%.200s': listed twice; outputs must differ", v->name);
    sp_value **list = grow(g->cx, g->output, g->n_outputs, &g->output_capacity);
    SP_NEED(g->cx, list);
    g->output = list;
    v->is_output = true;
    g->output[g->n_outputs++] = v;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ constants */

/* A copy of the view; of the elements too when `copy`. NULL after a message. */
static const sparta_tensor *keep_tensor(sp_graph *g, const sparta_tensor *from, bool copy)
{
    sparta_tensor *t = sp_arena_alloc(g->arena, sizeof *t);
    if (!t) return NULL;
    *t = *from;
    if (!copy) return t;
    if (sp_tensor_alloc_in(g->arena, from->dtype, from->rank, from->dim, t) != SPARTA_OK) return NULL;
    return sp_tensor_copy(g->cx, from, t) == SPARTA_OK ? t : NULL;
}

static sparta_status constant_dims(sp_graph *g, const sparta_tensor *t, sp_dims *out)
{
    sp_dims d = {.rank = t->rank};
    for (int i = 0; i < t->rank; i++) {
        d.dim[i] = sp_expr_const(g->arena, t->dim[i]);
        SP_NEED(g->cx, d.dim[i]);
    }
    *out = d;
    return SPARTA_OK;
}

sparta_status sp_graph_read_ints(sp_graph *g, sp_value *v)
{
    const sparta_tensor *t = v->constant;
    int64_t n = sparta_tensor_elements(t);
    if (!t->data || sp_dtype_is_float(t->dtype) || n > SP_GRAPH_INTS) return SPARTA_OK;
    const sp_expr **ints = sp_arena_array(g->arena, (size_t)n, sizeof *ints);
    SP_NEED(g->cx, ints);
    for (int64_t i = 0; i < n; i++) {
        int64_t x = sp_element_get_int(t->dtype, t->data, i);
        if (x == INT64_MIN || (t->dtype == SPARTA_U64 && x < 0)) return SPARTA_OK;
        ints[i] = sp_expr_const(g->arena, x);
        SP_NEED(g->cx, ints[i]);
    }
    v->ints = ints;
    v->n_ints = (int)n;
    return SPARTA_OK;
}

sparta_status sp_graph_add_constant(sp_graph *g, const char *name, const sparta_tensor *tensor, bool copy,
                                    sp_value **out)
{
    if (tensor->rank < 0 || tensor->rank > SPARTA_RANK || sparta_tensor_elements(tensor) < 0 ||
        (!copy && !sp_tensor_contiguous(tensor)))
        return sp_fail(g->cx, SPARTA_E_INTERNAL,
                       "constant '%.200s': the tensor is not row-major; copy it first", name ? name : "");
    sp_value *v;
    SP_TRY(sp_graph_add_value(g, name, &v));
    v->constant = keep_tensor(g, tensor, copy);
    SP_NEED(g->cx, v->constant);
    SP_TRY(constant_dims(g, tensor, &v->dims));
    v->dtype = tensor->dtype;
    v->typed = true;
    SP_TRY(sp_graph_read_ints(g, v));
    if (out) *out = v;
    return SPARTA_OK;
}

static sparta_status keep_bound(sp_graph *g, const sp_bound *b, sp_bound **list, int *n)
{
    if (*n == SP_GRAPH_SYMBOLS)
        return sp_fail(g->cx, SPARTA_E_LIMIT, "graph: more than %d symbols have a size or a bound",
                       SP_GRAPH_SYMBOLS);
    if (!*list) *list = sp_arena_array(g->arena, SP_GRAPH_SYMBOLS, sizeof **list);
    const char *name = *list ? sp_arena_string(g->arena, b->symbol) : NULL;
    SP_NEED(g->cx, name);
    (*list)[(*n)++] = (sp_bound){name, b->least, b->most};
    return SPARTA_OK;
}

sparta_status sp_graph_add_fixed(sp_graph *g, const char *symbol, int64_t size)
{
    return keep_bound(g, &(sp_bound){symbol, size, size}, &g->fixed, &g->n_fixed);
}

static sp_bound *find_bound(const sp_graph *g, const char *symbol)
{
    for (int i = 0; i < g->n_bounds; i++)
        if (!strcmp(g->bound[i].symbol, symbol)) return &g->bound[i];
    return NULL;
}

sparta_status sp_graph_add_bound(sp_graph *g, const char *symbol, int64_t least, int64_t most)
{
    sp_bound *b = find_bound(g, symbol);
    const sp_bound both = {symbol, b ? SP_MAX(b->least, least) : least, b ? SP_MIN(b->most, most) : most};
    if (both.least > both.most)
        return sp_fail(g->cx, SPARTA_E_SHAPE, "dim %.200s: at least %lld and at most %lld cannot both hold",
                       symbol, (long long)both.least, (long long)both.most);
    if (!b) return keep_bound(g, &both, &g->bound, &g->n_bounds);
    b->least = both.least;
    b->most = both.most;
    return SPARTA_OK;
}

sp_bound sp_graph_bound(const sp_graph *g, const char *symbol)
{
    const sp_bound *b = find_bound(g, symbol);
    return b ? *b : (sp_bound){symbol, 0, INT64_MAX};
}

sparta_status sp_bound_check(sparta_ctx *cx, const sp_bound *b, int64_t size)
{
    char end[32] = "or more";
    if (size >= b->least && size <= b->most) return SPARTA_OK;
    if (b->most < INT64_MAX) snprintf(end, sizeof end, "to %lld", (long long)b->most);
    return sp_fail(
        cx, SPARTA_E_USAGE,
        "dim %.200s: %lld is outside of what the model takes by its own bounds or by options.dims; "
        "give %lld %s",
        b->symbol, (long long)size, (long long)b->least, end);
}

/* ------------------------------------------------------------------ nodes */

typedef struct attribute_row {
    sp_op_id op;
    const char *name;
    sp_attr_kind kind;
} attribute_row;

static const attribute_row attributes[] = {
#define SP_ATTRIBUTE(op, name, kind) {SP_OP_##op, name, SP_ATTR_##kind},
#include "graph/attributes.def"
#undef SP_ATTRIBUTE
};

static const attribute_row annotations[] = {
#define SP_ATTRIBUTE(op, name, kind)
#define SP_ANNOTATION(name, kind) {SP_OPS, name, SP_ATTR_##kind},
#include "graph/attributes.def"
#undef SP_ATTRIBUTE
};

static const attribute_row *find_attribute(sp_op_id op, const char *name)
{
    for (size_t i = 0; i < SP_COUNT(attributes); i++)
        if (attributes[i].op == op && strcmp(attributes[i].name, name) == 0) return &attributes[i];
    for (size_t i = 0; i < SP_COUNT(annotations); i++)
        if (strcmp(annotations[i].name, name) == 0) return &annotations[i];
    return NULL;
}

bool sp_graph_is_annotation(const char *name)
{
    for (size_t i = 0; i < SP_COUNT(annotations); i++)
        if (strcmp(annotations[i].name, name) == 0) return true;
    return false;
}

sparta_status sp_graph_check_attrs(sparta_ctx *cx, sp_op_id op, const sp_attrs *attrs)
{
    static const char *const kinds[] = {"an int", "a float", "a string", "ints", "floats", "a tensor"};
    const char *name = sp_builtin_row(op)->name;
    for (int i = 0; i < attrs->n; i++) {
        const sp_attr *a = &attrs->attr[i];
        const attribute_row *row = find_attribute(op, a->name);
        if (!row)
            return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                           "%s: attribute '%.200s' is not known; export the model without it", name, a->name);
        if (row->kind != a->kind)
            return sp_fail(cx, SPARTA_E_FORMAT, "%s: attribute '%s' is %s and must be %s", name, a->name,
                           kinds[a->kind], kinds[row->kind]);
        /* Rows are few, so this ends at the second duplicate at the latest. */
        if (sp_attr_find(attrs, a->name) != a)
            return sp_fail(cx, SPARTA_E_FORMAT, "%s: attribute '%s' is given twice", name, a->name);
    }
    return SPARTA_OK;
}

static sparta_status copy_attr(sp_graph *g, sp_attr *a)
{
    a->name = sp_arena_string(g->arena, a->name);
    SP_NEED(g->cx, a->name);
    if (a->kind == SP_ATTR_STRING) {
        a->s = sp_arena_string(g->arena, a->s);
        SP_NEED(g->cx, a->s);
    } else if (a->kind == SP_ATTR_INTS) {
        int64_t *ints = sp_arena_array(g->arena, (size_t)a->n, sizeof *ints);
        SP_NEED(g->cx, ints);
        if (a->n) memcpy(ints, a->ints, (size_t)a->n * sizeof *ints);
        a->ints = ints;
    } else if (a->kind == SP_ATTR_FLOATS) {
        float *floats = sp_arena_array(g->arena, (size_t)a->n, sizeof *floats);
        SP_NEED(g->cx, floats);
        if (a->n) memcpy(floats, a->floats, (size_t)a->n * sizeof *floats);
        a->floats = floats;
    } else if (a->kind == SP_ATTR_TENSOR) {
        a->tensor = keep_tensor(g, a->tensor, true);
        SP_NEED(g->cx, a->tensor);
    }
    return SPARTA_OK;
}

static sparta_status copy_attrs(sp_graph *g, const sp_attrs *from, sp_attrs *out)
{
    sp_attr *list = sp_arena_array(g->arena, (size_t)from->n, sizeof *list);
    SP_NEED(g->cx, list);
    for (int i = 0; i < from->n; i++) {
        list[i] = from->attr[i];
        SP_TRY(copy_attr(g, &list[i]));
    }
    *out = (sp_attrs){from->n, list};
    return SPARTA_OK;
}

/* What the operator's row and the graph's law (one producer each) ask of a node. */
static sparta_status check_node(sp_graph *g, const sp_builtin *row, const char *name, int n_in,
                                sp_value *const *in, int n_out, sp_value *const *out)
{
    if (n_in < row->min_in || (row->max_in >= 0 && n_in > row->max_in))
        return sp_fail(g->cx, SPARTA_E_FORMAT, "%s '%.200s': %d inputs; it takes %d to %d", row->name, name,
                       n_in, row->min_in, row->max_in >= 0 ? row->max_in : MOST);
    if (n_out < 1 || (row->max_out >= 0 && n_out > row->max_out))
        return sp_fail(g->cx, SPARTA_E_FORMAT, "%s '%.200s': %d outputs; it has 1 to %d", row->name, name,
                       n_out, row->max_out >= 0 ? row->max_out : MOST);
    int needed = row->max_in >= 0 ? row->min_in : n_in; /* lists (Concat) have no gaps */
    for (int i = 0; i < needed; i++)
        if (!in[i])
            return sp_fail(g->cx, SPARTA_E_FORMAT, "%s '%.200s': input %d is absent and is not optional",
                           row->name, name, i);
    for (int i = 0; i < n_out; i++)
        if (out[i] && (out[i]->producer || out[i]->is_input || out[i]->constant))
            return sp_fail(g->cx, SPARTA_E_FORMAT,
                           "%s '%.200s': output '%.200s' is already defined elsewhere", row->name, name,
                           out[i]->name);
    return SPARTA_OK;
}

static sparta_status fill_node(sp_graph *g, sp_node *n, const char *name, sp_value *const *in,
                               const sp_attrs *attrs)
{
    n->name = sp_arena_string(g->arena, name);
    SP_NEED(g->cx, n->name);
    n->in = sp_arena_array(g->arena, (size_t)n->n_in, sizeof *n->in);
    SP_NEED(g->cx, n->in);
    if (n->n_in) memcpy(n->in, in, (size_t)n->n_in * sizeof *n->in);
    n->out = sp_arena_array(g->arena, (size_t)n->n_out, sizeof *n->out);
    SP_NEED(g->cx, n->out);
    return attrs ? copy_attrs(g, attrs, &n->attrs) : SPARTA_OK;
}

sparta_status sp_graph_add_node(sp_graph *g, sp_op_id op, const char *name, int n_in, sp_value *const *in,
                                int n_out, sp_value **out, const sp_attrs *attrs, sp_node **node)
{
    const sp_builtin *row = sp_builtin_row(op);
    name = name ? name : "";
    SP_TRY(check_node(g, row, name, n_in, in, n_out, out));
    if (attrs && sp_graph_check_attrs(g->cx, op, attrs) != SPARTA_OK)
        return sp_fail_in(g->cx, "'%.200s'", name);
    sp_node **list = grow(g->cx, g->node, g->n_nodes, &g->node_capacity);
    SP_NEED(g->cx, list);
    g->node = list;
    sp_node *n = sp_arena_alloc(g->arena, sizeof *n);
    SP_NEED(g->cx, n);
    *n = (sp_node){.op = op, .n_in = n_in, .n_out = n_out};
    SP_TRY(fill_node(g, n, name, in, attrs));
    for (int i = 0; i < n_out; i++) {
        n->out[i] = out[i];
        if (!out[i]) SP_TRY(sp_graph_add_value(g, NULL, &n->out[i]));
    }
    for (int i = 0; i < n_out; i++) {
        if (n->out[i]->producer == n) {
            for (int j = 0; j < i; j++) n->out[j]->producer = NULL;
            return sp_fail(g->cx, SPARTA_E_FORMAT, "%s '%.200s': output '%.200s' is listed twice", row->name,
                           name, n->out[i]->name);
        }
        n->out[i]->producer = n;
        out[i] = n->out[i];
    }
    g->node[g->n_nodes++] = n;
    if (node) *node = n;
    return SPARTA_OK;
}

bool sp_node_is_product(const sp_node *n)
{
    const sp_multiply *p = sp_multiply_of(n->op);
    return p && p->layer;
}

bool sp_node_is_fused(const sp_node *n)
{
    const sp_multiply *p = sp_multiply_of(n->op);
    return p && p->fused;
}

bool sp_node_takes_matrix(const sp_node *n, bool *turned)
{
    const sp_multiply *p = sp_multiply_of(n->op);
    if (!p || !p->lies || n->n_in < 2 || !n->in[1]) return false;
    *turned = !*p->lies || sp_attr_int(&n->attrs, p->lies, 0) == 0;
    return true;
}
