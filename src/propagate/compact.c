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

static bool loses(const sp_propagation *p, const sp_value *v)
{
    for (int k = 0; k < v->dims.rank; k++) {
        int64_t size = sp_axis_size(v, k);
        if (p->fact[v->id].gone[k] && left(p->fact[v->id].gone[k], size) < size) return true;
    }
    return false;
}

static sparta_status shrink_value(sp_propagation *p, sp_value *v, sp_cut **cuts)
{
    sp_fact *f = sp_fact_of(p, v);
    if (v->constant) {
        sparta_tensor *t = sp_arena_alloc(p->g->arena, sizeof *t);
        SP_NEED(p->cx, t);
        SP_TRY(sp_cut_plan(p->arena, p->g->arena, v->constant, f->gone, t, cuts));
        v->constant = t;
        v->ints = NULL;
        v->n_ints = 0;
    }
    for (int k = 0; k < v->dims.rank; k++) {
        int64_t size = sp_axis_size(v, k);
        if (!f->gone[k]) continue;
        v->dims.dim[k] = sp_expr_const(p->g->arena, left(f->gone[k], size));
        SP_NEED(p->cx, v->dims.dim[k]);
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ biases */
/* Slots that had a value before compaction. A constant that compaction made has one. */
static int uses(const sp_propagation *p, const sp_value *v)
{
    return v->id < p->n_values ? p->users.first[v->id + 1] - p->users.first[v->id] : 1;
}

/* A vector of this size that only this slot uses takes the sum itself. */
static sp_value *own_vector(const sp_propagation *p, const sp_node *n, int slot, int64_t size)
{
    sp_value *v = slot >= 0 && slot < n->n_in ? n->in[slot] : NULL;
    bool fits = v && v->constant && v->constant->rank == 1 && v->constant->dim[0] == size;
    return fits && uses(p, v) == 1 && !v->is_output ? v : NULL;
}

/* The constant that an Add after the node, its only user, adds along the last axis: exporters write a bias so. */
static sp_value *next_bias(const sp_propagation *p, const sp_node *n, int axis, int64_t size)
{
    const sp_value *y = n->out[0];
    const sp_users *u = &p->users;
    if (axis != y->dims.rank - 1 || uses(p, y) != 2 || y->is_output) return NULL; /* its maker is one */
    for (int i = u->first[y->id]; i < u->first[y->id + 1]; i++) {
        const sp_node *next = p->axes[u->user[i]].n;
        for (int k = 0; next->op == SP_OP_Add && next != n && k < 2; k++)
            if (next->in[k] == y) return own_vector(p, next, !k, size);
    }
    return NULL;
}

static sparta_status sum_into(sp_propagation *p, const sparta_tensor *add, sp_value *bias)
{
    sparta_tensor *t = sp_arena_alloc(p->g->arena, sizeof *t);
    SP_NEED(p->cx, t);
    SP_TRY(sp_tensor_alloc_in(p->g->arena, add->dtype, 1, add->dim, t));
    for (int64_t i = 0; i < add->dim[0]; i++)
        if (sp_dtype_is_float(t->dtype))
            sp_element_set(t->dtype, t->data, i,
                           sp_element_get(add->dtype, add->data, i) +
                               sp_element_get(bias->dtype, bias->constant->data, i));
        else /* they wrap, as Add has it, and a double does not hold them all */
            sp_element_set_int(t->dtype, t->data, i,
                               (int64_t)((uint64_t)sp_element_get_int(add->dtype, add->data, i) +
                                         (uint64_t)sp_element_get_int(bias->dtype, bias->constant->data, i)));
    bias->constant = t;
    bias->ints = NULL;
    bias->n_ints = 0;
    return SPARTA_OK;
}

/* y = node(...) becomes t = node(...); y = t + vector, behind all nodes: inference sorts them. */
static sparta_status append_add(sp_propagation *p, sp_node *n, int axis, const sparta_tensor *add)
{
    sp_graph *g = p->g;
    sp_value *y = n->out[0], *t, *vector;
    sparta_tensor shaped = *add;
    int64_t dim[SPARTA_RANK];
    shaped.rank = y->dims.rank - axis; /* [n, 1, 1] for channels */
    for (int k = 0; k < shaped.rank; k++) dim[k] = k ? 1 : add->dim[0];
    shaped = sparta_tensor_view(add->dtype, shaped.rank, dim, add->data);
    SP_TRY(sp_graph_add_constant(g, NULL, &shaped, true, &vector));
    SP_TRY(sp_graph_add_value(g, NULL, &t));
    t->dtype = y->dtype;
    t->dims = y->dims;
    t->typed = true;
    n->out[0] = t;
    t->producer = n;
    y->producer = NULL;
    /* onnxruntime wants the names of nodes to differ. */
    const char *name = sp_arena_printf(g->arena, "%s/%s", n->name, vector->name);
    SP_NEED(p->cx, name);
    return sp_graph_add_node(g, SP_OP_Add, name, 2, (sp_value *[]){t, vector}, 1, &y, NULL, NULL);
}

/* A bias for a node that has room for one and none. */
static sparta_status give_bias(sp_propagation *p, sp_node *n, int slot, const sparta_tensor *add)
{
    sp_value *bias;
    SP_TRY(sp_graph_add_constant(p->g, NULL, add, true, &bias));
    return sp_graph_set_input(p->g, n, slot, bias);
}

static sparta_status take_up(sp_propagation *p, const sp_axes *a, const sparta_tensor *all)
{
    sp_node *n = (sp_node *)a->n;
    uint8_t *gone[SPARTA_RANK] = {sp_fact_of(p, n->out[0])->gone[a->bias_axis]};
    sparta_tensor add;
    sp_cut *cut = NULL;
    SP_TRY(sp_cut_plan(p->arena, p->arena, all, gone, &add, &cut));
    SP_TRY(sp_cut_all(p->arena, cut, 1));
    sp_value *bias = own_vector(p, n, a->bias, add.dim[0]);
    if (!bias) bias = next_bias(p, n, a->bias_axis, add.dim[0]);
    if (bias) return sum_into(p, &add, bias);
    bool room = a->bias >= 0 && (a->bias >= n->n_in || !n->in[a->bias]);
    return room ? give_bias(p, n, a->bias, &add) : append_add(p, n, a->bias_axis, &add);
}

/* ------------------------------------------------------------------ all of it */
typedef struct expected {
    sp_value *v;
    sp_dims dims;
} expected;

static sparta_status check(sp_propagation *p, const expected *e, int n)
{
    for (int i = 0; i < n; i++) {
        const sp_value *v = e[i].v;
        if (!v->producer || (v->typed && sp_dims_equal(&v->dims, &e[i].dims))) continue;
        sp_text was, is;
        sp_text_init(&was, p->cx);
        sp_text_init(&is, p->cx);
        sp_dims_print(&e[i].dims, &was);
        sp_dims_print(&v->dims, &is);
        sparta_status status =
            sp_fail(p->cx, SPARTA_E_INTERNAL,
                    "propagate: '%.200s' was to have dims %s and has %s; this is a mistake in sparta",
                    v->name, sp_text_str(&was), sp_text_str(&is));
        sp_text_free(&was);
        sp_text_free(&is);
        return status;
    }
    return SPARTA_OK;
}

static sparta_status rewrite(sp_propagation *p, int nodes, const sparta_tensor *sums)
{
    sp_graph *g = p->g;
    sp_cut *cuts = NULL;
    uint8_t ***kept = sp_arena_array(p->arena, (size_t)SP_MAX(nodes, 1), sizeof *kept);
    SP_NEED(p->cx, kept);
    for (int i = 0; i < nodes; i++) {
        kept[i] = sp_arena_array(p->arena, SP_LABELS, sizeof **kept);
        SP_NEED(p->cx, kept[i]);
        SP_TRY(sp_labels_left(p, &p->axes[i], kept[i]));
    }
    for (int i = 0; i < p->n_values; i++)
        if (p->fact[i].tesa.state.at && loses(p, g->value[i])) SP_TRY(shrink_value(p, g->value[i], &cuts));
    SP_TRY(sp_cut_all(p->arena, cuts, p->options ? p->options->threads : 0));
    for (int i = 0; i < nodes; i++) {
        const sp_rule *rule = sp_rule_of(p->axes[i].n->op);
        sp_node *n = (sp_node *)p->axes[i].n;
        bool smaller = false;
        for (int l = 0; l < p->axes[i].labels; l++)
            for (int64_t k = 0; kept[i][l] && k < p->axes[i].label[l].size; k++) smaller |= !kept[i][l][k];
        if (rule->shrink && smaller)
            SP_TRY(rule->shrink(&(sp_shrink){g, n, &p->axes[i], (const uint8_t *const *)kept[i]}));
        p->moved += sums[i].data != NULL;
        if (sums[i].data) SP_TRY(take_up(p, &p->axes[i], &sums[i]));
    }
    return SPARTA_OK;
}

sparta_status sp_compact(sp_propagation *p, bool *changed)
{
    sp_graph *g = p->g;
    int nodes = g->n_nodes, n = 0;
    bool some = false;
    for (int i = 0; i < p->n_values; i++) some |= p->fact[i].tesa.state.at && loses(p, g->value[i]);
    if (!some) return SPARTA_OK;
    *changed = true;
    sparta_tensor *sums = sp_arena_array(p->arena, (size_t)SP_MAX(nodes, 1), sizeof *sums);
    SP_NEED(p->cx, sums);
    for (int i = 0; i < nodes; i++) SP_TRY(sp_fold_summands(p, &p->axes[i], &sums[i]));
    SP_TRY(rewrite(p, nodes, sums));
    expected *e = sp_arena_array(p->arena, (size_t)g->n_values, sizeof *e);
    SP_NEED(p->cx, e);
    for (int i = 0; i < g->n_values; i++)
        if (g->value[i]->typed) e[n++] = (expected){g->value[i], g->value[i]->dims};
    SP_TRY(sp_ops_infer(g));
    return check(p, e, n);
}
