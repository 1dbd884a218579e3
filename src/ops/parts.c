/* Concat: the sum of the dims along attribute axis; the other dims agree.
 * Split: along attribute axis (0) each output has its length from the second input, or all have the same, the last one what remains. */
#include "ops/ints.h"

/* ------------------------------------------------------------------ shapes */
static sparta_status concat_shape(sp_graph *g, sp_node *n)
{
    sp_dims dims = n->in[0]->dims;
    int axis;
    if (!sp_attr_find(&n->attrs, "axis"))
        return sp_ops_fail(g, n, SPARTA_E_FORMAT, "attribute axis is missing");
    SP_TRY(sp_ops_axis(g, n, sp_attr_int(&n->attrs, "axis", 0), dims.rank, &axis));
    for (int i = 1; i < n->n_in; i++) {
        const sp_dims *x = &n->in[i]->dims;
        SP_TRY(sp_ops_same_type(g, n, 0, i));
        SP_TRY(sp_ops_rank(g, n, i, dims.rank, dims.rank));
        for (int k = 0; k < dims.rank; k++)
            if (k != axis) SP_TRY(sp_ops_agree(g, n, "a dim that is not the axis", dims.dim[k], x->dim[k]));
        dims.dim[axis] = sp_expr_add(g->arena, dims.dim[axis], x->dim[axis]);
        SP_NEED(g->cx, dims.dim[axis]);
    }
    sp_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sp_ops_move(g, n, ~0u);
}

/* ceil(size / parts) */
static sparta_status equal_part(sp_graph *g, const sp_expr *size, int parts, const sp_expr **out)
{
    const sp_expr *by = sp_expr_const(g->arena, parts);
    SP_NEED(g->cx, by);
    SP_TRY(sp_ops_divide(g, size, by, out));
    if (!*out) *out = sp_ops_share(g, size, parts, true);
    SP_NEED(g->cx, *out);
    return SPARTA_OK;
}

static sparta_status split_shape(sp_graph *g, sp_node *n)
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
/* Parts of a whole, side by side: windows of its label. *known: all of their lengths are numbers; false, and nothing else, where there
 * are too many that are not to say anything. */
static sparta_status parts(sp_axes *a, const sp_value *v, sp_flow_operand *whole, int n,
                           sp_value *const *value, sp_flow_operand *part, bool *known)
{
    int axis, label[SPARTA_RANK], rank = v->dims.rank;
    int64_t from = 0, size;
    SP_TRY(sp_ops_axis(a->g, a->n, sp_attr_int(&a->n->attrs, "axis", 0), rank, &axis));
    *known = sp_expr_is_const(v->dims.dim[axis], NULL);
    for (int i = 0; i < n; i++) *known &= sp_expr_is_const(value[i]->dims.dim[axis], NULL);
    if (!*known && n + rank > SP_LABELS) return SPARTA_OK;
    SP_TRY(sp_axes_labels(a, v, label));
    a->how = SP_FLOW_MOVE;
    whole->role = SP_ARG;
    for (int k = 0; k < rank; k++) whole->axis[k] = sp_axis_of(label[k]);
    for (int i = 0; i < n; i++) {
        part[i] = *whole;
        part[i].axis[axis] = sp_axis_window(label[axis], from, 1);
        if (sp_expr_is_const(value[i]->dims.dim[axis], &size)) from += size;
    }
    return SPARTA_OK;
}

/* Lengths that are no numbers have no places: each part, of labels of this kind, may be anywhere in the whole. */
static sparta_status somewhere(sp_axes *a, sp_flow_operand *whole, int n, sp_value *const *value,
                               sp_flow_operand *part, sp_label_kind kind, const char *why)
{
    int axis, l;
    SP_TRY(sp_ops_axis(a->g, a->n, sp_attr_int(&a->n->attrs, "axis", 0), value[0]->dims.rank, &axis));
    for (int i = 0; i < n; i++) {
        SP_TRY(sp_axes_label(a, value[i]->dims.dim[axis], kind, why, &l));
        part[i].axis[axis] = sp_axis_of(l);
    }
    l = whole->axis[axis].label[0];
    a->label[l].why = why;
    if (a->label[l].size < 0 && kind == SP_EACH) return SPARTA_OK; /* all alike, as flow.h says */
    a->no_values = true;
    a->how = kind == SP_EACH ? SP_FLOW_PRODUCT : SP_FLOW_FUNCTION;
    if (kind == SP_EACH) a->label[l].kind = SP_SUM;
    if (kind == SP_EACH) whole->role = SP_FACTOR;
    return SPARTA_OK;
}

static sparta_status concat_axes(sp_axes *a)
{
    const sp_node *n = a->n;
    bool known;
    SP_TRY(parts(a, n->out[0], &a->out[0], n->n_in, n->in, a->in, &known));
    if (known || a->how == SP_FLOW_OPAQUE) return SPARTA_OK;
    return somewhere(a, &a->out[0], n->n_in, n->in, a->in, SP_WHOLE,
                     "it joins lengths that are symbols; give them with options.dims");
}

static sparta_status split_axes(sp_axes *a)
{
    const sp_node *n = a->n;
    bool known;
    SP_TRY(parts(a, n->in[0], &a->in[0], n->n_out, n->out, a->out, &known));
    if (known || a->how == SP_FLOW_OPAQUE) return SPARTA_OK;
    return somewhere(a, &a->in[0], n->n_out, n->out, a->out, SP_EACH,
                     "it takes lengths apart that are symbols; give them with options.dims");
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

SP_RULE(Concat, concat_shape, SP_ALL, SP_EXACT, concat_axes, NULL, "the same elements side by side", "");
SP_RULE(Split, split_shape, SP_ALL, SP_EXACT, split_axes, shrink, "the same elements, each in its part",
        "lengths computed from data");
