/* The smaller graph: constants sliced, dims and the attributes that count rewritten, constants that went added to biases. Shapes are
 * then inferred again, and must come out as agreed. */
#include "propagate/facts.h"
#include <string.h>

static int64_t left(const uint8_t *gone, int64_t size)
{
    int64_t n = 0;
    for (int64_t i = 0; i < size; i++) n += !(gone && gone[i]);
    return n;
}

static bool loses(const sparta_propagation *p, const sparta_value *v)
{
    for (int k = 0; k < v->dims.rank; k++) {
        int64_t size = sparta_axis_size(v, k);
        if (p->fact[v->id].gone[k] && left(p->fact[v->id].gone[k], size) < size) return true;
    }
    return false;
}

static sparta_status shrink_value(sparta_propagation *p, sparta_value *v, sparta_cut **cuts)
{
    sparta_fact *f = sparta_fact_of(p, v);
    if (v->constant) {
        sparta_tensor *t = sparta_arena_alloc(p->g->arena, sizeof *t);
        SPARTA_NEED(p->cx, t);
        SPARTA_TRY(sparta_cut_plan(p->arena, p->g->arena, v->constant, f->gone, t, cuts));
        v->constant = t;
        v->ints = NULL;
        v->n_ints = 0;
    }
    for (int k = 0; k < v->dims.rank; k++) {
        int64_t size = sparta_axis_size(v, k);
        if (!f->gone[k]) continue;
        v->dims.dim[k] = sparta_expr_const(p->g->arena, left(f->gone[k], size));
        SPARTA_NEED(p->cx, v->dims.dim[k]);
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ biases */
/* Slots that had a value before compaction. A constant that compaction made has one. */
static int uses(const sparta_propagation *p, const sparta_value *v)
{
    return v->id < p->n_values ? p->users.first[v->id + 1] - p->users.first[v->id] : 1;
}

/* A vector of this size that only this slot uses takes the sum itself. */
static sparta_value *own_vector(const sparta_propagation *p, const sparta_node *n, int slot, int64_t size)
{
    sparta_value *v = slot >= 0 && slot < n->n_in ? n->in[slot] : NULL;
    bool fits = v && v->constant && v->constant->rank == 1 && v->constant->dim[0] == size;
    return fits && uses(p, v) == 1 && !v->is_output ? v : NULL;
}

/* The constant that an Add after the node, its only user, adds along the last axis: exporters write a bias so. */
static sparta_value *next_bias(const sparta_propagation *p, const sparta_node *n, int axis, int64_t size)
{
    const sparta_value *y = n->out[0];
    const sparta_users *u = &p->users;
    if (axis != y->dims.rank - 1 || uses(p, y) != 2 || y->is_output) return NULL; /* its maker is one */
    for (int i = u->first[y->id]; i < u->first[y->id + 1]; i++) {
        const sparta_node *next = p->axes[u->user[i]].n;
        for (int k = 0; next->op == SPARTA_OP_Add && next != n && k < 2; k++)
            if (next->in[k] == y) return own_vector(p, next, !k, size);
    }
    return NULL;
}

static sparta_status sum_into(sparta_propagation *p, const sparta_tensor *add, sparta_value *bias)
{
    sparta_tensor *t = sparta_arena_alloc(p->g->arena, sizeof *t);
    SPARTA_NEED(p->cx, t);
    SPARTA_TRY(sparta_tensor_alloc_in(p->g->arena, add->dtype, 1, add->dim, t));
    for (int64_t i = 0; i < add->dim[0]; i++)
        if (sparta_dtype_is_float(t->dtype))
            sparta_element_set(t->dtype, t->data, i,
                               sparta_element_get(add->dtype, add->data, i) +
                                   sparta_element_get(bias->dtype, bias->constant->data, i));
        else /* they wrap, as Add has it, and a double does not hold them all */
            sparta_element_set_int(
                t->dtype, t->data, i,
                (int64_t)((uint64_t)sparta_element_get_int(add->dtype, add->data, i) +
                          (uint64_t)sparta_element_get_int(bias->dtype, bias->constant->data, i)));
    bias->constant = t;
    bias->ints = NULL;
    bias->n_ints = 0;
    return SPARTA_OK;
}

/* y = node(...) becomes t = node(...); y = t + vector, behind all nodes: inference sorts them. */
static sparta_status append_add(sparta_propagation *p, sparta_node *n, int axis, const sparta_tensor *add)
{
    sparta_graph *g = p->g;
    sparta_value *y = n->out[0], *t, *vector;
    sparta_tensor shaped = *add;
    int64_t dim[SPARTA_RANK];
    shaped.rank = y->dims.rank - axis; /* [n, 1, 1] for channels */
    for (int k = 0; k < shaped.rank; k++) dim[k] = k ? 1 : add->dim[0];
    shaped = sparta_tensor_view(add->dtype, shaped.rank, dim, add->data);
    SPARTA_TRY(sparta_graph_add_constant(g, NULL, &shaped, true, &vector));
    SPARTA_TRY(sparta_graph_add_value(g, NULL, &t));
    t->dtype = y->dtype;
    t->dims = y->dims;
    t->typed = true;
    n->out[0] = t;
    t->producer = n;
    y->producer = NULL;
    const char *name = sparta_arena_printf(g->arena, "%s/%s", n->name,
                                           vector->name); /* names of nodes differ, onnxruntime wants */
    SPARTA_NEED(p->cx, name);
    return sparta_graph_add_node(g, SPARTA_OP_Add, name, 2, (sparta_value *[]){t, vector}, 1, &y, NULL, NULL);
}

/* A bias for a node that has room for one and none. */
static sparta_status give_bias(sparta_propagation *p, sparta_node *n, int slot, const sparta_tensor *add)
{
    int n_in = SPARTA_MAX(n->n_in, slot + 1);
    sparta_value **in = sparta_arena_array(p->g->arena, (size_t)n_in, sizeof *in);
    SPARTA_NEED(p->cx, in);
    memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
    SPARTA_TRY(sparta_graph_add_constant(p->g, NULL, add, true, &in[slot]));
    n->in = in;
    n->n_in = n_in;
    return SPARTA_OK;
}

static sparta_status take_up(sparta_propagation *p, const sparta_axes *a, const sparta_tensor *all)
{
    sparta_node *n = (sparta_node *)a->n;
    uint8_t *gone[SPARTA_RANK] = {sparta_fact_of(p, n->out[0])->gone[a->bias_axis]};
    sparta_tensor add;
    sparta_cut *cut = NULL;
    SPARTA_TRY(sparta_cut_plan(p->arena, p->arena, all, gone, &add, &cut));
    SPARTA_TRY(sparta_cut_all(p->arena, cut, 1));
    sparta_value *bias = own_vector(p, n, a->bias, add.dim[0]);
    if (!bias) bias = next_bias(p, n, a->bias_axis, add.dim[0]);
    if (bias) return sum_into(p, &add, bias);
    bool room = a->bias >= 0 && (a->bias >= n->n_in || !n->in[a->bias]);
    return room ? give_bias(p, n, a->bias, &add) : append_add(p, n, a->bias_axis, &add);
}

/* ------------------------------------------------------------------ all of it */
typedef struct expected {
    sparta_value *v;
    sparta_dims dims;
} expected;

static sparta_status check(sparta_propagation *p, const expected *e, int n)
{
    for (int i = 0; i < n; i++) {
        const sparta_value *v = e[i].v;
        if (!v->producer || (v->typed && sparta_dims_equal(&v->dims, &e[i].dims))) continue;
        sparta_text was, is;
        sparta_text_init(&was, p->cx);
        sparta_text_init(&is, p->cx);
        sparta_dims_print(&e[i].dims, &was);
        sparta_dims_print(&v->dims, &is);
        sparta_status status =
            sparta_fail(p->cx, SPARTA_E_INTERNAL,
                        "propagate: '%.200s' was to have dims %s and has %s; this is a mistake in sparta",
                        v->name, sparta_text_str(&was), sparta_text_str(&is));
        sparta_text_free(&was);
        sparta_text_free(&is);
        return status;
    }
    return SPARTA_OK;
}

static sparta_status rewrite(sparta_propagation *p, int nodes, const sparta_tensor *sums)
{
    sparta_graph *g = p->g;
    sparta_cut *cuts = NULL;
    uint8_t ***kept = sparta_arena_array(p->arena, (size_t)SPARTA_MAX(nodes, 1), sizeof *kept);
    SPARTA_NEED(p->cx, kept);
    for (int i = 0; i < nodes; i++) {
        kept[i] = sparta_arena_array(p->arena, SPARTA_LABELS, sizeof **kept);
        SPARTA_NEED(p->cx, kept[i]);
        SPARTA_TRY(sparta_labels_left(p, &p->axes[i], kept[i]));
    }
    for (int i = 0; i < p->n_values; i++)
        if (p->fact[i].state.at && loses(p, g->value[i])) SPARTA_TRY(shrink_value(p, g->value[i], &cuts));
    SPARTA_TRY(sparta_cut_all(p->arena, cuts, p->options ? p->options->threads : 0));
    for (int i = 0; i < nodes; i++) {
        const sparta_flow *flow = sparta_flow_of(p->axes[i].n->op);
        sparta_node *n = (sparta_node *)p->axes[i].n;
        bool smaller = false;
        for (int l = 0; l < p->axes[i].labels; l++)
            for (int64_t k = 0; kept[i][l] && k < p->axes[i].label[l].size; k++) smaller |= !kept[i][l][k];
        if (flow->shrink && smaller)
            SPARTA_TRY(flow->shrink(&(sparta_shrink){g, n, &p->axes[i], (const uint8_t *const *)kept[i]}));
        p->moved += sums[i].data != NULL;
        if (sums[i].data) SPARTA_TRY(take_up(p, &p->axes[i], &sums[i]));
    }
    return SPARTA_OK;
}

sparta_status sparta_compact(sparta_propagation *p, bool *changed)
{
    sparta_graph *g = p->g;
    int nodes = g->n_nodes, n = 0;
    bool some = false;
    for (int i = 0; i < p->n_values; i++) some |= p->fact[i].state.at && loses(p, g->value[i]);
    if (!some) return SPARTA_OK;
    *changed = true;
    sparta_tensor *sums = sparta_arena_array(p->arena, (size_t)SPARTA_MAX(nodes, 1), sizeof *sums);
    SPARTA_NEED(p->cx, sums);
    for (int i = 0; i < nodes; i++) SPARTA_TRY(sparta_fold_summands(p, &p->axes[i], &sums[i]));
    SPARTA_TRY(rewrite(p, nodes, sums));
    expected *e = sparta_arena_array(p->arena, (size_t)g->n_values, sizeof *e);
    SPARTA_NEED(p->cx, e);
    for (int i = 0; i < g->n_values; i++)
        if (g->value[i]->typed) e[n++] = (expected){g->value[i], g->value[i]->dims};
    SPARTA_TRY(sparta_ops_infer(g));
    return check(p, e, n);
}
