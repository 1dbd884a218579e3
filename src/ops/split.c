/* Split: along attribute axis (0) each output has its length from the second input, or all have the same, the
 * last one what remains. */
#include "ops/ints.h"

/* ceil(size / parts) */
static sparta_status equal_part(sp_graph *g, const sp_expr *size, int parts, const sp_expr **out)
{
    const sp_expr *by = sp_expr_const(g->arena, parts), *more = sp_expr_const(g->arena, parts - 1);
    SP_NEED(g->cx, by && more);
    SP_TRY(sp_ops_divide(g, size, by, out));
    if (*out) return SPARTA_OK;
    more = sp_expr_add(g->arena, size, more);
    SP_NEED(g->cx, more);
    *out = sp_expr_div(g->arena, more, by);
    SP_NEED(g->cx, *out);
    return SPARTA_OK;
}

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_value *x = n->in[0];
    sp_list lengths;
    int axis;
    int64_t parts = sp_attr_int(&n->attrs, "num_outputs", n->n_out);
    SP_TRY(sp_ops_axis(g, n, sp_attr_int(&n->attrs, "axis", 0), x->dims.rank, &axis));
    SP_TRY(sp_ops_list(g, n, 1, "the lengths", &lengths));
    if (lengths.n < 0 ? parts != n->n_out : lengths.n != n->n_out)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%lld parts and %d outputs",
                           lengths.n < 0 ? (long long)parts : (long long)lengths.n, n->n_out);
    const sp_expr *rest = x->dims.dim[axis], *each = NULL;
    if (lengths.n < 0) SP_TRY(equal_part(g, rest, n->n_out, &each));
    for (int i = 0; i < n->n_out; i++) {
        const sp_expr *length = lengths.n >= 0 ? lengths.x[i] : i < n->n_out - 1 ? each : rest;
        sp_dims dims = x->dims;
        dims.rank = axis;
        SP_TRY(sp_ops_append(g, n, &dims, length));
        dims.rank = x->dims.rank;
        rest = sp_expr_sub(g->arena, rest, length);
        SP_NEED(g->cx, rest);
        sp_ops_set(n, i, x->dtype, &dims);
    }
    if (!sp_expr_is(rest, 0))
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "the parts of dim %d of %s leave %s over", axis,
                           sp_ops_say_dims(g, &x->dims), sp_ops_say(g, rest));
    return sp_ops_move(g, n, 1);
}

/* ------------------------------------------------------------------ flow */
/* Lengths that are no numbers: each output may be from anywhere. */
static sparta_status somewhere(sp_axes *a, int axis)
{
    static const char why[] = "it takes lengths apart that are symbols; give them with options.dims";
    sp_label *whole = &a->label[a->in[0].axis[axis].label[0]];
    for (int o = 0; o < a->n->n_out; o++) {
        int l;
        SP_TRY(sp_axes_label(a, a->n->out[o]->dims.dim[axis], SP_EACH, why, &l));
        a->out[o].axis[axis] = sp_axis_of(l);
    }
    whole->why = why;
    if (whole->size < 0) return SPARTA_OK; /* all alike, as flow.h says */
    whole->kind = SP_SUM;
    a->how = SP_FLOW_PRODUCT;
    a->in[0].role = SP_FACTOR;
    a->no_values = true;
    return SPARTA_OK;
}

static sparta_status axes(sp_axes *a)
{
    const sp_value *x = a->n->in[0];
    int axis, label[SPARTA_RANK];
    int64_t from = 0, size;
    bool known;
    SP_TRY(sp_ops_axis(a->g, a->n, sp_attr_int(&a->n->attrs, "axis", 0), x->dims.rank, &axis));
    known = sp_expr_is_const(x->dims.dim[axis], NULL);
    for (int o = 0; o < a->n->n_out; o++) known &= sp_expr_is_const(a->n->out[o]->dims.dim[axis], NULL);
    if (!known && a->n->n_out + x->dims.rank > SP_LABELS) return SPARTA_OK;
    SP_TRY(sp_axes_labels(a, x, label));
    a->how = SP_FLOW_MOVE;
    a->in[0].role = SP_ARG;
    for (int k = 0; k < x->dims.rank; k++) a->in[0].axis[k] = sp_axis_of(label[k]);
    for (int o = 0; o < a->n->n_out; o++) {
        a->out[o] = a->in[0];
        a->out[o].axis[axis] = sp_axis_window(label[axis], from, 1);
        if (sp_expr_is_const(a->n->out[o]->dims.dim[axis], &size)) from += size;
    }
    return known ? SPARTA_OK : somewhere(a, axis);
}

/* The lengths are written out: what is left of equal parts is not equal. */
static sparta_status shrink(const sp_shrink *s)
{
    const sp_node *n = s->n;
    int axis;
    SP_TRY(sp_ops_axis(s->g, n, sp_attr_int(&n->attrs, "axis", 0), n->in[0]->dims.rank, &axis));
    if (!s->kept[s->axes->in[0].axis[axis].label[0]]) return SPARTA_OK;
    int64_t *length = sp_arena_array(s->g->arena, (size_t)n->n_out, sizeof *length);
    SP_NEED(s->g->cx, length);
    for (int o = 0; o < n->n_out; o++) (void)sp_expr_is_const(n->out[o]->dims.dim[axis], &length[o]);
    SP_TRY(sp_shrink_list(s, 1, n->n_out, length));
    return sp_graph_drop_attr(s->g, s->n, "num_outputs");
}

SP_RULE(Split, shape, SP_ALL, SP_EXACT, axes, shrink, "the same elements, each in its part",
        "lengths computed from data");
