/* Gather: the dims of the indices in place of the dim at attribute axis (0). */
#include "ops/ints.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_value *x = n->in[0], *indices = n->in[1];
    sp_dims dims = {.rank = 0};
    int axis;
    SP_TRY(sp_ops_types(g, n, 1, SP_INDICES));
    SP_TRY(sp_ops_axis(g, n, sp_attr_int(&n->attrs, "axis", 0), x->dims.rank, &axis));
    for (int i = 0; i < axis; i++) SP_TRY(sp_ops_append(g, n, &dims, x->dims.dim[i]));
    for (int i = 0; i < indices->dims.rank; i++) SP_TRY(sp_ops_append(g, n, &dims, indices->dims.dim[i]));
    for (int i = axis + 1; i < x->dims.rank; i++) SP_TRY(sp_ops_append(g, n, &dims, x->dims.dim[i]));
    sp_ops_set(n, 0, x->dtype, &dims);
    return sp_ops_move(g, n, 1);
}

/* ------------------------------------------------------------------ flow */
/* Constant indices along one axis at most, all of them within x: the picks, in `arena`. *out is NULL where it is not so. */
static sparta_status read_picks(const sp_axes *a, int64_t size, const int64_t **out)
{
    const sparta_tensor *t = a->n->in[1]->constant;
    int64_t n = t ? sparta_tensor_elements(t) : 0;
    *out = NULL;
    for (int i = 0; i < (t ? t->rank : 0); i++)
        if (t->dim[i] != 1 && t->dim[i] != n) return SPARTA_OK;
    if (n == 0 || size < 0) return SPARTA_OK;
    int64_t *at = sp_arena_array(a->arena, (size_t)n, sizeof *at);
    SP_NEED(a->g->cx, at);
    for (int64_t i = 0; i < n; i++) {
        at[i] = sp_element_get_int(t->dtype, t->data, i);
        if (at[i] < 0) at[i] += size;
        if (at[i] < 0 || at[i] >= size) return SPARTA_OK;
    }
    *out = at;
    return SPARTA_OK;
}

/* Known picks: the one axis of the indices that is not 1 has them, or the last one. A scalar takes one index: flow.h says how. */
static void pick(sp_axes *a, int axis, int label, const int64_t *at)
{
    const sparta_tensor *t = a->n->in[1]->constant;
    int which = t->rank - 1;
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] != 1) which = i;
    a->how = SP_FLOW_MOVE;
    a->in[0].role = SP_ARG;
    if (t->rank) {
        a->out[0].axis[axis + which] =
            (sp_axis){.n = 1, .label = {label}, .window = true, .step = 1, .at = at};
        return;
    }
    a->label[label].why = "it takes one of them, by its place";
    if (at) a->label[label].size = 1;
    if (at) a->in[0].axis[axis] = sp_axis_window(label, -at[0], 1);
}

/* x: b L c, indices: i, y: b i c. */
static sparta_status axes(sp_axes *a)
{
    const sp_value *x = a->n->in[0], *indices = a->n->in[1];
    int axis, l, more = indices->dims.rank;
    const int64_t *at;
    SP_TRY(sp_ops_axis(a->g, a->n, sp_attr_int(&a->n->attrs, "axis", 0), x->dims.rank, &axis));
    a->out[0].role = SP_ARG;
    for (int i = 0; i < x->dims.rank; i++) {
        SP_TRY(sp_axes_label(a, x->dims.dim[i], SP_EACH, NULL, &l));
        a->in[0].axis[i] = sp_axis_of(l);
        if (i != axis) a->out[0].axis[i < axis ? i : i - 1 + more] = sp_axis_of(l);
    }
    l = a->in[0].axis[axis].label[0];
    SP_TRY(read_picks(a, a->label[l].size, &at));
    if (at || (indices->constant && more == 0 && a->label[l].size < 0)) {
        pick(a, axis, l, at);
        return SPARTA_OK;
    }
    a->how = SP_FLOW_PRODUCT;
    a->no_values = true;
    a->in[0].role = SP_FACTOR;
    a->in[1].role = SP_ARG;
    a->label[l].kind = SP_SUM;
    a->label[l].why = "which of them it takes is known only as the model runs";
    for (int i = 0; i < more; i++) {
        SP_TRY(sp_axes_label(a, indices->dims.dim[i], SP_EACH, NULL, &l));
        a->in[1].axis[i] = a->out[0].axis[axis + i] = sp_axis_of(l);
    }
    return SPARTA_OK;
}

/* The indices that are left, renumbered. */
static sparta_status shrink(const sp_shrink *s)
{
    const sp_value *indices = s->n->in[1];
    const sparta_tensor *t = indices->constant;
    int64_t dim[SPARTA_RANK], count = 0;
    int axis, l;
    SP_TRY(sp_ops_axis(s->g, s->n, sp_attr_int(&s->n->attrs, "axis", 0), s->n->in[0]->dims.rank, &axis));
    l = s->axes->in[0].axis[axis].label[0];
    if (s->axes->how != SP_FLOW_MOVE || !s->kept[l]) return SPARTA_OK;
    int64_t size = s->axes->label[l].size, n = sparta_tensor_elements(t);
    int64_t *place = sp_arena_array(s->g->arena, (size_t)(size + n), sizeof *place), *left = place + size;
    SP_NEED(s->g->cx, place);
    for (int64_t i = 0, k = 0; i < size; i++) place[i] = s->kept[l][i] ? k++ : -1;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = sp_element_get_int(t->dtype, t->data, i);
        at = place[at < 0 ? at + size : at];
        if (at >= 0) left[count++] = at;
    }
    for (int i = 0; i < t->rank; i++) dim[i] = t->dim[i] == 1 ? 1 : count;
    if (t->rank && n == 1) dim[t->rank - 1] = count;
    return sp_shrink_tensor(s, 1, t->rank, dim, left);
}

SP_RULE(Gather, shape, SP_ALL, SP_EXACT, axes, shrink,
        "the rows that constant indices name, the others go; zero where every row is, for computed ones", "");
