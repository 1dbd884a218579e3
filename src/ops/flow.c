/* The parts of flow.h: labels, the rules that many operators share, and what shrinking needs. */
#include "ops/ints.h"
#include <string.h>

sparta_status sp_axes_of(sp_graph *g, const sp_node *n, sp_arena *arena, sp_axes *out)
{
    sp_axes a = {.g = g, .n = n, .arena = arena, .bias = -1, .bias_axis = -1};
    a.in = sp_arena_array(arena, (size_t)(n->n_in + n->n_out), sizeof *a.in);
    SP_NEED(g->cx, a.in);
    a.out = a.in + n->n_in;
    const sp_rule *rule = sp_rule_of(n->op);
    if (rule->axes) SP_TRY(rule->axes(&a));
    *out = a;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ labels */
sparta_status sp_axes_label(sp_axes *a, const sp_expr *dim, sp_label_kind kind, const char *why, int *out)
{
    if (a->labels == SP_LABELS)
        return sp_ops_fail(a->g, a->n, SPARTA_E_LIMIT, "more than %d different axes", SP_LABELS);
    sp_label *l = &a->label[a->labels];
    *l = (sp_label){.kind = kind, .why = why};
    if (!sp_expr_is_const(dim, &l->size)) l->size = -1;
    if (kind == SP_WHOLE && !why) l->why = "each of its outputs depends on all of them";
    *out = a->labels++;
    return SPARTA_OK;
}

sparta_status sp_axes_labels(sp_axes *a, const sp_value *v, int *label)
{
    for (int i = 0; i < v->dims.rank; i++) SP_TRY(sp_axes_label(a, v->dims.dim[i], SP_EACH, NULL, &label[i]));
    return SPARTA_OK;
}

void sp_axes_broadcast(sp_axes *a, int i, sp_role role, int rank, const int *label)
{
    if (!sp_ops_has(a->n, i)) return;
    const sp_dims *d = &a->n->in[i]->dims;
    a->in[i].role = role;
    for (int k = 0; k < d->rank; k++) {
        int at = rank - d->rank + k; /* below 0 for the list of one that limits a scalar */
        int l = at >= 0 ? label[at] : -1;
        bool repeats = l < 0 || (sp_expr_is(d->dim[k], 1) && a->label[l].size != 1);
        a->in[i].axis[k] = repeats ? (sp_axis){.n = 0} : sp_axis_of(l);
    }
}

/* Every output has these labels, one an axis. */
static void outputs(sp_axes *a, const int *label)
{
    for (int o = 0; o < a->n->n_out; o++) {
        a->out[o].role = SP_ARG;
        for (int k = 0; k < a->n->out[o]->dims.rank; k++) a->out[o].axis[k] = sp_axis_of(label[k]);
    }
}

static sparta_status all_alike(sp_axes *a, sp_flow_how how, sp_role role)
{
    int label[SPARTA_RANK];
    SP_TRY(sp_axes_labels(a, a->n->out[0], label));
    a->how = how;
    a->broadcasts = true;
    for (int i = 0; i < a->n->n_in; i++) sp_axes_broadcast(a, i, role, a->n->out[0]->dims.rank, label);
    outputs(a, label);
    return SPARTA_OK;
}

sparta_status sp_flow_each(sp_axes *a)
{
    return all_alike(a, SP_FLOW_FUNCTION, SP_ARG);
}

sparta_status sp_flow_times(sp_axes *a)
{
    return all_alike(a, SP_FLOW_PRODUCT, SP_FACTOR);
}

sparta_status sp_flow_same(sp_axes *a)
{
    int label[SPARTA_RANK];
    SP_TRY(sp_axes_labels(a, a->n->out[0], label));
    a->how = SP_FLOW_MOVE;
    sp_axes_broadcast(a, 0, SP_ARG, a->n->out[0]->dims.rank, label);
    outputs(a, label);
    return SPARTA_OK;
}

sparta_status sp_flow_along(sp_axes *a, const bool whole[SPARTA_RANK], const char *why)
{
    SP_TRY(sp_flow_each(a));
    a->broadcasts = false;
    for (int k = 0; k < a->n->out[0]->dims.rank; k++) {
        if (!whole[k]) continue;
        a->label[k].kind = SP_WHOLE;
        a->label[k].why = why;
    }
    return SPARTA_OK;
}

sparta_status sp_flow_reduce(sp_axes *a, sp_flow_how how, sp_label_kind kind, const char *why)
{
    const sp_dims *x = &a->n->in[0]->dims;
    bool set[SPARTA_RANK], keep = sp_attr_int(&a->n->attrs, "keepdims", 1);
    int count, l, to = 0;
    SP_TRY(sp_ops_axes(a->g, a->n, 1, x->rank, set, &count));
    bool every = count <= 0 && !sp_attr_int(&a->n->attrs, "noop_with_empty_axes", 0);
    for (int i = 0; i < x->rank; i++)
        if (sp_expr_is(x->dim[i], 0)) return SPARTA_OK; /* the mean of nothing is NaN: nothing is said */
    a->how = how;
    a->in[0].role = how == SP_FLOW_PRODUCT ? SP_FACTOR : SP_ARG;
    a->out[0].role = SP_ARG;
    for (int i = 0; i < x->rank; i++) {
        bool reduced = every || set[i];
        SP_TRY(sp_axes_label(a, x->dim[i], reduced ? kind : SP_EACH, reduced ? why : NULL, &l));
        a->in[0].axis[i] = sp_axis_of(l);
        if (!reduced) a->out[0].axis[to] = sp_axis_of(l);
        to += !reduced || keep;
    }
    if (how == SP_FLOW_PRODUCT && kind == SP_WHOLE) a->in[0].hides[false] = 1 << 0;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the same elements in row-major order */
/* One side of a Reshape, taken apart from both ends:
 *
 *     12 64  ->  24 32       12 | 2*32 and 12*2 | 32: labels 12, 2, 32
 *     b s*64 ->  b*s 64      labels b, s, 64
 *     6 4    ->  4 6         2*3 2*2 and 2*2 3*2: 2 in front, 2 at the end, 3 2 and 2 3 between them are mixed
 */
typedef struct side {
    const sp_expr *left[SPARTA_RANK]; /* of each axis, what has no label yet */
    /* Labels from the left, major first; from the right, minor first. */
    sp_axis front[SPARTA_RANK], back[SPARTA_RANK];
    int from, end; /* the axes with something left */
} side;

static bool empty(const sp_dims *d)
{
    for (int i = 0; i < d->rank; i++)
        if (sp_expr_is(d->dim[i], 0)) return true;
    return false;
}

static side side_of(const sp_dims *d)
{
    side s = {.end = d->rank};
    for (int i = 0; i < d->rank; i++) s.left[i] = d->dim[i];
    return s;
}

/* The axis at this end, or -1. */
static int next_axis(side *s, bool right)
{
    while (s->from < s->end && sp_expr_is(s->left[right ? s->end - 1 : s->from], 1))
        right ? s->end-- : s->from++;
    return s->from == s->end ? -1 : right ? s->end - 1 : s->from;
}

/* What both have at this end: a common divisor of numbers, or one that divides the other; NULL: nothing. */
static sparta_status common(sp_graph *g, const sp_expr *x, const sp_expr *y, const sp_expr **out)
{
    int64_t m, n;
    const sp_expr *rest;
    *out = x;
    if (sp_expr_equal(x, y)) return SPARTA_OK;
    if (sp_expr_is_const(x, &m) && sp_expr_is_const(y, &n)) {
        for (int64_t r; n; m = n, n = r) r = m % n;
        *out = m > 1 ? sp_expr_const(g->arena, m) : NULL;
        if (m > 1) SP_NEED(g->cx, *out);
        return SPARTA_OK;
    }
    SP_TRY(sp_ops_divide(g, y, x, &rest));
    if (rest) return SPARTA_OK;
    SP_TRY(sp_ops_divide(g, x, y, &rest));
    *out = rest ? y : NULL;
    return SPARTA_OK;
}

/* Take a piece off the axis. *full where it has more labels than can be said. */
static sparta_status take(sp_axes *a, side *s, int axis, const sp_expr *piece, int label, bool right,
                          bool *full)
{
    sp_axis *list = right ? &s->back[axis] : &s->front[axis];
    *full |= s->front[axis].n + s->back[axis].n >= SP_COMPOSITE - 1; /* one more for what is mixed */
    if (*full) return SPARTA_OK;
    list->label[list->n++] = label;
    const sp_expr *rest;
    SP_TRY(sp_ops_divide(a->g, s->left[axis], piece, &rest));
    *full |= !rest;
    if (rest) s->left[axis] = rest;
    return SPARTA_OK;
}

static sparta_status peel(sp_axes *a, side *x, side *y, bool right, bool *full)
{
    for (;;) {
        int i = next_axis(x, right), j = next_axis(y, right), l;
        const sp_expr *piece;
        if (i < 0 || j < 0) return SPARTA_OK;
        SP_TRY(common(a->g, x->left[i], y->left[j], &piece));
        if (!piece) return SPARTA_OK;
        *full |= a->labels >= SP_LABELS - 2 * SPARTA_RANK;
        if (*full) return SPARTA_OK;
        SP_TRY(sp_axes_label(a, piece, SP_EACH, NULL, &l));
        SP_TRY(take(a, x, i, piece, l, right, full));
        SP_TRY(take(a, y, j, piece, l, right, full));
        if (*full) return SPARTA_OK;
    }
}

/* The axes of a side, with a label for what is left of each. */
static sparta_status finish(sp_axes *a, const side *s, int rank, sp_label_kind kind, sp_flow_operand *out,
                            bool *mixed)
{
    for (int i = 0; i < rank; i++) {
        sp_axis x = s->front[i];
        if (!sp_expr_is(s->left[i], 1)) {
            int l;
            *mixed = true;
            SP_TRY(sp_axes_label(a, s->left[i], kind, "it cuts these axes across, not between whole blocks",
                                 &l));
            a->label[l].run = SP_MAX(a->label[l].size, 0);
            x.label[x.n++] = l;
        }
        for (int k = s->back[i].n; k > 0; k--) x.label[x.n++] = s->back[i].label[k - 1];
        out->axis[i] = x;
    }
    return SPARTA_OK;
}

sparta_status sp_flow_reshape(sp_axes *a)
{
    const sp_dims *dx = &a->n->in[0]->dims, *dy = &a->n->out[0]->dims;
    side x = side_of(dx), y = side_of(dy);
    bool full = empty(dx) || empty(dy), mixed = false;
    for (int right = 0; right < 2 && !full; right++) SP_TRY(peel(a, &x, &y, right, &full));
    if (full) { /* opaque */
        a->labels = 0;
        return SPARTA_OK;
    }
    SP_TRY(finish(a, &x, dx->rank, SP_SUM, &a->in[0], &mixed));
    SP_TRY(finish(a, &y, dy->rank, SP_EACH, &a->out[0], &mixed));
    a->how = mixed ? SP_FLOW_PRODUCT : SP_FLOW_MOVE;
    a->in[0].role = mixed ? SP_FACTOR : SP_ARG;
    a->out[0].role = SP_ARG;
    a->no_values = mixed;
    return SPARTA_OK;
}

sparta_status sp_axes_opaque(sp_axes *a)
{
    a->how = SP_FLOW_OPAQUE;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ shrinking */
int64_t sp_shrink_count(const sp_shrink *s, int label, int64_t from, int64_t end)
{
    int64_t count = 0;
    if (!s->kept[label]) return end - from;
    for (int64_t i = from; i < end; i++) count += s->kept[label][i];
    return count;
}

sparta_status sp_shrink_tensor(const sp_shrink *s, int i, int rank, const int64_t *dim,
                               const int64_t *numbers)
{
    sparta_dtype dtype = sp_ops_has(s->n, i) ? s->n->in[i]->dtype : SPARTA_I64;
    sparta_tensor t;
    sp_value *v;
    SP_TRY(sp_tensor_alloc_in(s->g->arena, dtype, rank, dim, &t));
    int64_t count = sparta_tensor_elements(&t);
    for (int64_t k = 0; k < count; k++) sp_element_set_int(dtype, t.data, k, numbers[k]);
    SP_TRY(sp_graph_add_constant(s->g, NULL, &t, false, &v));
    return sp_graph_set_input(s->g, s->n, i, v);
}

sparta_status sp_shrink_list(const sp_shrink *s, int i, int count, const int64_t *numbers)
{
    return sp_shrink_tensor(s, i, 1, (int64_t[]){count}, numbers);
}

/* The list as it was before an earlier round set numbers in it, all of which are set again. */
static sp_value *unset(sp_value *list, int count, const bool *set)
{
    const sp_node *by = list->producer;
    if (!by || by->op != SP_OP_Where || !by->in[0]->constant || !by->in[1]->constant) return list;
    const sparta_tensor *was = by->in[0]->constant;
    if (sparta_tensor_elements(was) != count) return list;
    for (int k = 0; k < count; k++)
        if (((const uint8_t *)was->data)[k] && !set[k]) return list;
    const sp_dims *d = &by->in[2]->dims;
    return d->rank == 1 && sp_expr_is(d->dim[0], count) ? by->in[2] : list;
}

sparta_status sp_shrink_some(const sp_shrink *s, int i, int count, const bool *set, const int64_t *numbers)
{
    sp_graph *g = s->g;
    bool all = true;
    for (int k = 0; k < count; k++) all &= set[k];
    if (all) return sp_shrink_list(s, i, count, numbers);
    const sparta_tensor t = sparta_tensor_view(SPARTA_BOOL, 1, (int64_t[]){count}, (void *)(uintptr_t)set);
    sp_value *in[3], *out = NULL, *was = s->n->in[i];
    sp_node *where;
    SP_TRY(sp_graph_add_constant(g, NULL, &t, true, &in[0]));
    SP_TRY(sp_shrink_list(s, i, count, numbers));
    in[1] = s->n->in[i];
    in[2] = unset(was, count, set);
    const char *name = sp_arena_printf(g->arena, "%s/%s", s->n->name, in[0]->name); /* of its own */
    SP_NEED(g->cx, name);
    SP_TRY(sp_graph_add_node(g, SP_OP_Where, name, 3, in, 1, &out, NULL, &where));
    SP_TRY(sp_ops_infer_node(g, where)); /* behind all nodes: inference of the whole sorts them */
    s->n->in[i] = out;
    return SPARTA_OK;
}
