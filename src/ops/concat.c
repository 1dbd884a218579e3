/* Concat: the sum of the dims along attribute axis; the other dims agree. */
#include "ops/ints.h"

static sparta_status shape(sp_graph *g, sp_node *n)
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

/* Lengths that are no numbers have no places: each input may be anywhere in the output. */
static sparta_status somewhere(sp_axes *a, int axis)
{
    static const char why[] = "it joins lengths that are symbols; give them with options.dims";
    for (int i = 0; i < a->n->n_in; i++) {
        int l;
        SP_TRY(sp_axes_label(a, a->n->in[i]->dims.dim[axis], SP_WHOLE, why, &l));
        a->in[i].axis[axis] = sp_axis_of(l);
    }
    a->label[a->out[0].axis[axis].label[0]].why = why;
    a->how = SP_FLOW_FUNCTION;
    a->no_values = true;
    return SPARTA_OK;
}

static sparta_status axes(sp_axes *a)
{
    int axis, label[SPARTA_RANK], rank = a->n->out[0]->dims.rank;
    int64_t from = 0, size;
    bool known = true;
    SP_TRY(sp_ops_axis(a->g, a->n, sp_attr_int(&a->n->attrs, "axis", 0), rank, &axis));
    for (int i = 0; i < a->n->n_in; i++) known &= sp_expr_is_const(a->n->in[i]->dims.dim[axis], NULL);
    if (!known && a->n->n_in + rank > SP_LABELS) return SPARTA_OK;
    SP_TRY(sp_axes_labels(a, a->n->out[0], label));
    a->how = SP_FLOW_MOVE;
    a->out[0].role = SP_ARG;
    for (int k = 0; k < rank; k++) a->out[0].axis[k] = sp_axis_of(label[k]);
    for (int i = 0; i < a->n->n_in; i++) {
        a->in[i] = a->out[0];
        a->in[i].axis[axis] = sp_axis_window(label[axis], from, 1);
        if (sp_expr_is_const(a->n->in[i]->dims.dim[axis], &size)) from += size;
    }
    return known ? SPARTA_OK : somewhere(a, axis);
}

SP_RULE(Concat, shape, SP_ALL, SP_EXACT, axes, NULL, "the same elements side by side", "");
