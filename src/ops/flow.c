/* The parts of flow.h: labels, the rules that many operators share, and what shrinking needs. */
#include "ops/flow.h"
#include "ops/ints.h"
#include <string.h>

static const sparta_flow *const flows[] = {
#define SPARTA_OP(id, domain, name, min_in, max_in, max_out) &sparta_flow_##id,
#include "builtin/ops.def"
#undef SPARTA_OP
};

const sparta_flow *sparta_flow_override[SPARTA_OPS];

const sparta_flow *sparta_flow_of(sparta_op_id op)
{
    return sparta_flow_override[op] ? sparta_flow_override[op] : flows[op];
}

sparta_status sparta_axes_of(sparta_graph *g, const sparta_node *n, sparta_arena *arena, sparta_axes *out)
{
    sparta_axes a = {.g = g, .n = n, .arena = arena, .bias = -1, .bias_axis = -1};
    a.in = sparta_arena_array(arena, (size_t)(n->n_in + n->n_out), sizeof *a.in);
    SPARTA_NEED(g->cx, a.in);
    a.out = a.in + n->n_in;
    const sparta_flow *flow = sparta_flow_of(n->op);
    if (flow->axes) SPARTA_TRY(flow->axes(&a));
    *out = a;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ labels */
sparta_status sparta_axes_label(sparta_axes *a, const sparta_expr *dim, sparta_label_kind kind,
                                const char *why, int *out)
{
    if (a->labels == SPARTA_LABELS)
        return sparta_ops_fail(a->g, a->n, SPARTA_E_LIMIT, "more than %d different axes", SPARTA_LABELS);
    sparta_label *l = &a->label[a->labels];
    *l = (sparta_label){.kind = kind, .why = why};
    if (!sparta_expr_is_const(dim, &l->size)) l->size = -1;
    if (kind == SPARTA_WHOLE && !why) l->why = "each of its outputs depends on all of them";
    *out = a->labels++;
    return SPARTA_OK;
}

sparta_status sparta_axes_labels(sparta_axes *a, const sparta_value *v, int *label)
{
    for (int i = 0; i < v->dims.rank; i++)
        SPARTA_TRY(sparta_axes_label(a, v->dims.dim[i], SPARTA_EACH, NULL, &label[i]));
    return SPARTA_OK;
}

void sparta_axes_broadcast(sparta_axes *a, int i, sparta_role role, int rank, const int *label)
{
    if (!sparta_ops_has(a->n, i)) return;
    const sparta_dims *d = &a->n->in[i]->dims;
    a->in[i].role = role;
    for (int k = 0; k < d->rank; k++) {
        int at = rank - d->rank + k; /* below 0 for the list of one that limits a scalar */
        int l = at >= 0 ? label[at] : -1;
        bool repeats = l < 0 || (sparta_expr_is(d->dim[k], 1) && a->label[l].size != 1);
        a->in[i].axis[k] = repeats ? (sparta_axis){.n = 0} : sparta_axis_of(l);
    }
}

/* Every output has these labels, one an axis. */
static void outputs(sparta_axes *a, const int *label)
{
    for (int o = 0; o < a->n->n_out; o++) {
        a->out[o].role = SPARTA_ARG;
        for (int k = 0; k < a->n->out[o]->dims.rank; k++) a->out[o].axis[k] = sparta_axis_of(label[k]);
    }
}

static sparta_status all_alike(sparta_axes *a, sparta_flow_how how, sparta_role role)
{
    int label[SPARTA_RANK];
    SPARTA_TRY(sparta_axes_labels(a, a->n->out[0], label));
    a->how = how;
    a->broadcasts = true;
    for (int i = 0; i < a->n->n_in; i++) sparta_axes_broadcast(a, i, role, a->n->out[0]->dims.rank, label);
    outputs(a, label);
    return SPARTA_OK;
}

sparta_status sparta_flow_each(sparta_axes *a)
{
    return all_alike(a, SPARTA_FLOW_FUNCTION, SPARTA_ARG);
}

sparta_status sparta_flow_times(sparta_axes *a)
{
    return all_alike(a, SPARTA_FLOW_PRODUCT, SPARTA_FACTOR);
}

sparta_status sparta_flow_same(sparta_axes *a)
{
    int label[SPARTA_RANK];
    SPARTA_TRY(sparta_axes_labels(a, a->n->out[0], label));
    a->how = SPARTA_FLOW_MOVE;
    sparta_axes_broadcast(a, 0, SPARTA_ARG, a->n->out[0]->dims.rank, label);
    outputs(a, label);
    return SPARTA_OK;
}

sparta_status sparta_flow_along(sparta_axes *a, const bool whole[SPARTA_RANK], const char *why)
{
    SPARTA_TRY(sparta_flow_each(a));
    a->broadcasts = false;
    for (int k = 0; k < a->n->out[0]->dims.rank; k++) {
        if (!whole[k]) continue;
        a->label[k].kind = SPARTA_WHOLE;
        a->label[k].why = why;
    }
    return SPARTA_OK;
}

void sparta_flow_scaled(sparta_axes *a)
{
    static const sparta_role role[3] = {SPARTA_ARG, SPARTA_FACTOR, SPARTA_TERM};
    const float epsilon = sparta_attr_float(&a->n->attrs, "epsilon", 1e-5f);
    for (int i = 1; i < a->n->n_in; i++) a->in[i].after = true;
    if (a->n->n_out > 1 || !(epsilon > 0) || !sparta_ops_has(a->n, 1)) return;
    a->how = SPARTA_FLOW_PRODUCT;
    for (int i = 0; i < a->n->n_in && i < 3; i++)
        if (a->n->in[i]) a->in[i].role = role[i];
}

sparta_status sparta_flow_reduce(sparta_axes *a, sparta_flow_how how, sparta_label_kind kind, const char *why)
{
    const sparta_dims *x = &a->n->in[0]->dims;
    bool set[SPARTA_RANK], keep = sparta_attr_int(&a->n->attrs, "keepdims", 1);
    int count, l, to = 0;
    SPARTA_TRY(sparta_ops_axes(a->g, a->n, 1, x->rank, set, &count));
    bool every = count <= 0 && !sparta_attr_int(&a->n->attrs, "noop_with_empty_axes", 0);
    for (int i = 0; i < x->rank; i++)
        if (sparta_expr_is(x->dim[i], 0)) return SPARTA_OK; /* the mean of nothing is NaN: nothing is said */
    a->how = how;
    a->in[0].role = how == SPARTA_FLOW_PRODUCT ? SPARTA_FACTOR : SPARTA_ARG;
    a->out[0].role = SPARTA_ARG;
    for (int i = 0; i < x->rank; i++) {
        bool reduced = every || set[i];
        SPARTA_TRY(sparta_axes_label(a, x->dim[i], reduced ? kind : SPARTA_EACH, reduced ? why : NULL, &l));
        a->in[0].axis[i] = sparta_axis_of(l);
        if (!reduced) a->out[0].axis[to] = sparta_axis_of(l);
        to += !reduced || keep;
    }
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
    const sparta_expr *left[SPARTA_RANK]; /* of each axis, what has no label yet */
    sparta_axis front[SPARTA_RANK],
        back[SPARTA_RANK]; /* labels from the left, major first; from the right, minor first */
    int from, end;         /* the axes with something left */
} side;

static bool empty(const sparta_dims *d)
{
    for (int i = 0; i < d->rank; i++)
        if (sparta_expr_is(d->dim[i], 0)) return true;
    return false;
}

static side side_of(const sparta_dims *d)
{
    side s = {.end = d->rank};
    for (int i = 0; i < d->rank; i++) s.left[i] = d->dim[i];
    return s;
}

/* The axis at this end, or -1. */
static int next_axis(side *s, bool right)
{
    while (s->from < s->end && sparta_expr_is(s->left[right ? s->end - 1 : s->from], 1))
        right ? s->end-- : s->from++;
    return s->from == s->end ? -1 : right ? s->end - 1 : s->from;
}

/* What both have at this end: a common divisor of numbers, or one that divides the other; NULL: nothing. */
static sparta_status common(sparta_graph *g, const sparta_expr *x, const sparta_expr *y,
                            const sparta_expr **out)
{
    int64_t m, n;
    const sparta_expr *rest;
    *out = x;
    if (sparta_expr_equal(x, y)) return SPARTA_OK;
    if (sparta_expr_is_const(x, &m) && sparta_expr_is_const(y, &n)) {
        for (int64_t r; n; m = n, n = r) r = m % n;
        *out = m > 1 ? sparta_expr_const(g->arena, m) : NULL;
        if (m > 1) SPARTA_NEED(g->cx, *out);
        return SPARTA_OK;
    }
    SPARTA_TRY(sparta_ops_divide(g, y, x, &rest));
    if (rest) return SPARTA_OK;
    SPARTA_TRY(sparta_ops_divide(g, x, y, &rest));
    *out = rest ? y : NULL;
    return SPARTA_OK;
}

/* Take a piece off the axis. *full where it has more labels than can be said. */
static sparta_status take(sparta_axes *a, side *s, int axis, const sparta_expr *piece, int label, bool right,
                          bool *full)
{
    sparta_axis *list = right ? &s->back[axis] : &s->front[axis];
    *full |= s->front[axis].n + s->back[axis].n >= SPARTA_COMPOSITE - 1; /* one more for what is mixed */
    if (*full) return SPARTA_OK;
    list->label[list->n++] = label;
    const sparta_expr *rest;
    SPARTA_TRY(sparta_ops_divide(a->g, s->left[axis], piece, &rest));
    *full |= !rest;
    if (rest) s->left[axis] = rest;
    return SPARTA_OK;
}

static sparta_status peel(sparta_axes *a, side *x, side *y, bool right, bool *full)
{
    for (;;) {
        int i = next_axis(x, right), j = next_axis(y, right), l;
        const sparta_expr *piece;
        if (i < 0 || j < 0) return SPARTA_OK;
        SPARTA_TRY(common(a->g, x->left[i], y->left[j], &piece));
        if (!piece) return SPARTA_OK;
        *full |= a->labels >= SPARTA_LABELS - 2 * SPARTA_RANK;
        if (*full) return SPARTA_OK;
        SPARTA_TRY(sparta_axes_label(a, piece, SPARTA_EACH, NULL, &l));
        SPARTA_TRY(take(a, x, i, piece, l, right, full));
        SPARTA_TRY(take(a, y, j, piece, l, right, full));
        if (*full) return SPARTA_OK;
    }
}

/* The axes of a side, with a label for what is left of each. */
static sparta_status finish(sparta_axes *a, const side *s, int rank, sparta_label_kind kind,
                            sparta_flow_operand *out, bool *mixed)
{
    for (int i = 0; i < rank; i++) {
        sparta_axis x = s->front[i];
        if (!sparta_expr_is(s->left[i], 1)) {
            int l;
            *mixed = true;
            SPARTA_TRY(sparta_axes_label(a, s->left[i], kind,
                                         "it cuts these axes across, not between whole blocks", &l));
            a->label[l].run = SPARTA_MAX(a->label[l].size, 0);
            x.label[x.n++] = l;
        }
        for (int k = s->back[i].n; k > 0; k--) x.label[x.n++] = s->back[i].label[k - 1];
        out->axis[i] = x;
    }
    return SPARTA_OK;
}

sparta_status sparta_flow_reshape(sparta_axes *a)
{
    const sparta_dims *dx = &a->n->in[0]->dims, *dy = &a->n->out[0]->dims;
    side x = side_of(dx), y = side_of(dy);
    bool full = empty(dx) || empty(dy), mixed = false;
    for (int right = 0; right < 2 && !full; right++) SPARTA_TRY(peel(a, &x, &y, right, &full));
    if (full) { /* opaque */
        a->labels = 0;
        return SPARTA_OK;
    }
    SPARTA_TRY(finish(a, &x, dx->rank, SPARTA_SUM, &a->in[0], &mixed));
    SPARTA_TRY(finish(a, &y, dy->rank, SPARTA_EACH, &a->out[0], &mixed));
    a->how = mixed ? SPARTA_FLOW_PRODUCT : SPARTA_FLOW_MOVE;
    a->in[0].role = mixed ? SPARTA_FACTOR : SPARTA_ARG;
    a->out[0].role = SPARTA_ARG;
    a->no_values = mixed;
    return SPARTA_OK;
}

sparta_status sparta_axes_opaque(sparta_axes *a)
{
    a->how = SPARTA_FLOW_OPAQUE;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ shrinking */
int64_t sparta_shrink_count(const sparta_shrink *s, int label, int64_t from, int64_t end)
{
    int64_t count = 0;
    if (!s->kept[label]) return end - from;
    for (int64_t i = from; i < end; i++) count += s->kept[label][i];
    return count;
}

/* Input i is `v`; inputs up to it that the node did not have are absent. */
static sparta_status set_input(const sparta_shrink *s, int i, sparta_value *v)
{
    sparta_node *n = s->n;
    if (i >= n->n_in) {
        sparta_value **in = sparta_arena_array(s->g->arena, (size_t)i + 1, sizeof *in);
        SPARTA_NEED(s->g->cx, in);
        for (int k = 0; k < n->n_in; k++) in[k] = n->in[k];
        n->in = in;
        n->n_in = i + 1;
    }
    n->in[i] = v;
    return SPARTA_OK;
}

sparta_status sparta_shrink_tensor(const sparta_shrink *s, int i, int rank, const int64_t *dim,
                                   const int64_t *numbers)
{
    sparta_dtype dtype = sparta_ops_has(s->n, i) ? s->n->in[i]->dtype : SPARTA_I64;
    sparta_tensor t;
    sparta_value *v;
    SPARTA_TRY(sparta_tensor_alloc_in(s->g->arena, dtype, rank, dim, &t));
    int64_t count = sparta_tensor_elements(&t);
    for (int64_t k = 0; k < count; k++) sparta_element_set_int(dtype, t.data, k, numbers[k]);
    SPARTA_TRY(sparta_graph_add_constant(s->g, NULL, &t, false, &v));
    return set_input(s, i, v);
}

sparta_status sparta_shrink_list(const sparta_shrink *s, int i, int count, const int64_t *numbers)
{
    return sparta_shrink_tensor(s, i, 1, (int64_t[]){count}, numbers);
}

/* The list as it was before an earlier round set numbers in it, all of which are set again. */
static sparta_value *unset(sparta_value *list, int count, const bool *set)
{
    const sparta_node *by = list->producer;
    if (!by || by->op != SPARTA_OP_Where || !by->in[0]->constant || !by->in[1]->constant) return list;
    const sparta_tensor *was = by->in[0]->constant;
    if (sparta_tensor_elements(was) != count) return list;
    for (int k = 0; k < count; k++)
        if (((const uint8_t *)was->data)[k] && !set[k]) return list;
    const sparta_dims *d = &by->in[2]->dims;
    return d->rank == 1 && sparta_expr_is(d->dim[0], count) ? by->in[2] : list;
}

sparta_status sparta_shrink_some(const sparta_shrink *s, int i, int count, const bool *set,
                                 const int64_t *numbers)
{
    sparta_graph *g = s->g;
    bool all = true;
    for (int k = 0; k < count; k++) all &= set[k];
    if (all) return sparta_shrink_list(s, i, count, numbers);
    const sparta_tensor t = sparta_tensor_view(SPARTA_BOOL, 1, (int64_t[]){count}, (void *)(uintptr_t)set);
    sparta_value *in[3], *out = NULL, *was = s->n->in[i];
    sparta_node *where;
    SPARTA_TRY(sparta_graph_add_constant(g, NULL, &t, true, &in[0]));
    SPARTA_TRY(sparta_shrink_list(s, i, count, numbers));
    in[1] = s->n->in[i];
    in[2] = unset(was, count, set);
    const char *name = sparta_arena_printf(g->arena, "%s/%s", s->n->name, in[0]->name); /* of its own */
    SPARTA_NEED(g->cx, name);
    SPARTA_TRY(sparta_graph_add_node(g, SPARTA_OP_Where, name, 3, in, 1, &out, NULL, &where));
    SPARTA_TRY(sparta_ops_infer_node(g, where)); /* behind all nodes: inference of the whole sorts them */
    s->n->in[i] = out;
    return SPARTA_OK;
}

sparta_status sparta_shrink_drop(const sparta_shrink *s, const char *attribute)
{
    sparta_attrs *old = &s->n->attrs;
    sparta_attr *left = sparta_arena_array(s->g->arena, (size_t)old->n, sizeof *left);
    SPARTA_NEED(s->g->cx, left);
    int count = 0;
    for (int k = 0; k < old->n; k++)
        if (strcmp(old->attr[k].name, attribute)) left[count++] = old->attr[k];
    *old = (sparta_attrs){count, left};
    return SPARTA_OK;
}

sparta_status sparta_shrink_int(const sparta_shrink *s, const char *attribute, int64_t value)
{
    sparta_attrs *old = &s->n->attrs;
    sparta_attr *all = sparta_arena_array(s->g->arena, (size_t)old->n + 1, sizeof *all);
    SPARTA_NEED(s->g->cx, all);
    int at = 0;
    while (at < old->n && strcmp(old->attr[at].name, attribute)) at++;
    if (old->n) memcpy(all, old->attr, (size_t)old->n * sizeof *all);
    all[at] = (sparta_attr){.name = attribute, .kind = SPARTA_ATTR_INT, .i = value};
    *old = (sparta_attrs){SPARTA_MAX(old->n, at + 1), all};
    return SPARTA_OK;
}
