/* Split: along attribute axis (0) each output has its length from the second input, or all have the same, the
 * last one what remains. */
#include "ops/flow.h"
#include "ops/ints.h"

/* ceil(size / parts) */
static sparta_status equal_part(sparta_graph *g, const sparta_expr *size, int parts, const sparta_expr **out)
{
    const sparta_expr *by = sparta_expr_const(g->arena, parts),
                      *more = sparta_expr_const(g->arena, parts - 1);
    SPARTA_NEED(g->cx, by && more);
    SPARTA_TRY(sparta_ops_divide(g, size, by, out));
    if (*out) return SPARTA_OK;
    more = sparta_expr_add(g->arena, size, more);
    SPARTA_NEED(g->cx, more);
    *out = sparta_expr_div(g->arena, more, by);
    SPARTA_NEED(g->cx, *out);
    return SPARTA_OK;
}

sparta_status sparta_shape_Split(sparta_graph *g, sparta_node *n)
{
    const sparta_value *x = n->in[0];
    sparta_list lengths;
    int axis;
    int64_t parts = sparta_attr_int(&n->attrs, "num_outputs", n->n_out);
    SPARTA_TRY(sparta_ops_axis(g, n, sparta_attr_int(&n->attrs, "axis", 0), x->dims.rank, &axis));
    SPARTA_TRY(sparta_ops_list(g, n, 1, "the lengths", &lengths));
    if (lengths.n < 0 ? parts != n->n_out : lengths.n != n->n_out)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "%lld parts and %d outputs",
                               lengths.n < 0 ? (long long)parts : (long long)lengths.n, n->n_out);
    const sparta_expr *rest = x->dims.dim[axis], *each = NULL;
    if (lengths.n < 0) SPARTA_TRY(equal_part(g, rest, n->n_out, &each));
    for (int i = 0; i < n->n_out; i++) {
        const sparta_expr *length = lengths.n >= 0 ? lengths.x[i] : i < n->n_out - 1 ? each : rest;
        sparta_dims dims = x->dims;
        dims.rank = axis;
        SPARTA_TRY(sparta_ops_append(g, n, &dims, length));
        dims.rank = x->dims.rank;
        rest = sparta_expr_sub(g->arena, rest, length);
        SPARTA_NEED(g->cx, rest);
        sparta_ops_set(n, i, x->dtype, &dims);
    }
    if (!sparta_expr_is(rest, 0))
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "the parts of dim %d of %s leave %s over", axis,
                               sparta_ops_say_dims(g, &x->dims), sparta_ops_say(g, rest));
    return sparta_ops_move(g, n, 1);
}

/* ------------------------------------------------------------------ flow */
/* Lengths that are no numbers: each output may be from anywhere. */
static sparta_status somewhere(sparta_axes *a, int axis)
{
    static const char why[] = "it takes lengths apart that are symbols; give them with --dim";
    sparta_label *whole = &a->label[a->in[0].axis[axis].label[0]];
    for (int o = 0; o < a->n->n_out; o++) {
        int l;
        SPARTA_TRY(sparta_axes_label(a, a->n->out[o]->dims.dim[axis], SPARTA_EACH, why, &l));
        a->out[o].axis[axis] = sparta_axis_of(l);
    }
    whole->why = why;
    if (whole->size < 0) return SPARTA_OK; /* all alike, as flow.h says */
    whole->kind = SPARTA_SUM;
    a->how = SPARTA_FLOW_PRODUCT;
    a->in[0].role = SPARTA_FACTOR;
    a->no_values = true;
    return SPARTA_OK;
}

static sparta_status axes(sparta_axes *a)
{
    const sparta_value *x = a->n->in[0];
    int axis, label[SPARTA_RANK];
    int64_t from = 0, size;
    bool known;
    SPARTA_TRY(sparta_ops_axis(a->g, a->n, sparta_attr_int(&a->n->attrs, "axis", 0), x->dims.rank, &axis));
    known = sparta_expr_is_const(x->dims.dim[axis], NULL);
    for (int o = 0; o < a->n->n_out; o++) known &= sparta_expr_is_const(a->n->out[o]->dims.dim[axis], NULL);
    if (!known && a->n->n_out + x->dims.rank > SPARTA_LABELS) return SPARTA_OK;
    SPARTA_TRY(sparta_axes_labels(a, x, label));
    a->how = SPARTA_FLOW_MOVE;
    a->in[0].role = SPARTA_ARG;
    for (int k = 0; k < x->dims.rank; k++) a->in[0].axis[k] = sparta_axis_of(label[k]);
    for (int o = 0; o < a->n->n_out; o++) {
        a->out[o] = a->in[0];
        a->out[o].axis[axis] = sparta_axis_window(label[axis], from, 1);
        if (sparta_expr_is_const(a->n->out[o]->dims.dim[axis], &size)) from += size;
    }
    return known ? SPARTA_OK : somewhere(a, axis);
}

/* The lengths are written out: what is left of equal parts is not equal. */
static sparta_status shrink(const sparta_shrink *s)
{
    const sparta_node *n = s->n;
    int axis;
    SPARTA_TRY(sparta_ops_axis(s->g, n, sparta_attr_int(&n->attrs, "axis", 0), n->in[0]->dims.rank, &axis));
    if (!s->kept[s->axes->in[0].axis[axis].label[0]]) return SPARTA_OK;
    int64_t *length = sparta_arena_array(s->g->arena, (size_t)n->n_out, sizeof *length);
    SPARTA_NEED(s->g->cx, length);
    for (int o = 0; o < n->n_out; o++) (void)sparta_expr_is_const(n->out[o]->dims.dim[axis], &length[o]);
    SPARTA_TRY(sparta_shrink_list(s, 1, n->n_out, length));
    return sparta_shrink_drop(s, "num_outputs");
}

const sparta_flow sparta_flow_Split = {
    SPARTA_EXACT, "the same elements, each in its part", "any", "lengths computed from data", axes, shrink};
