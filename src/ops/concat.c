/* Concat: the sum of the dims along attribute axis; the other dims agree. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_Concat(sparta_graph *g, sparta_node *n)
{
    sparta_dims dims = n->in[0]->dims;
    int axis;
    if (!sparta_attr_find(&n->attrs, "axis"))
        return sparta_ops_fail(g, n, SPARTA_E_FORMAT, "attribute axis is missing");
    SPARTA_TRY(sparta_ops_axis(g, n, sparta_attr_int(&n->attrs, "axis", 0), dims.rank, &axis));
    for (int i = 1; i < n->n_in; i++) {
        const sparta_dims *x = &n->in[i]->dims;
        SPARTA_TRY(sparta_ops_same_type(g, n, 0, i));
        SPARTA_TRY(sparta_ops_rank(g, n, i, dims.rank, dims.rank));
        for (int k = 0; k < dims.rank; k++)
            if (k != axis)
                SPARTA_TRY(sparta_ops_agree(g, n, "a dim that is not the axis", dims.dim[k], x->dim[k]));
        dims.dim[axis] = sparta_expr_add(g->arena, dims.dim[axis], x->dim[axis]);
        SPARTA_NEED(g->cx, dims.dim[axis]);
    }
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sparta_ops_move(g, n, ~0u);
}

/* Lengths that are no numbers have no places: each input may be anywhere in the output. */
static sparta_status somewhere(sparta_axes *a, int axis)
{
    static const char why[] = "it joins lengths that are symbols; give them with --dim";
    for (int i = 0; i < a->n->n_in; i++) {
        int l;
        SPARTA_TRY(sparta_axes_label(a, a->n->in[i]->dims.dim[axis], SPARTA_WHOLE, why, &l));
        a->in[i].axis[axis] = sparta_axis_of(l);
    }
    a->label[a->out[0].axis[axis].label[0]].why = why;
    a->how = SPARTA_FLOW_FUNCTION;
    a->no_values = true;
    return SPARTA_OK;
}

static sparta_status axes(sparta_axes *a)
{
    int axis, label[SPARTA_RANK], rank = a->n->out[0]->dims.rank;
    int64_t from = 0, size;
    bool known = true;
    SPARTA_TRY(sparta_ops_axis(a->g, a->n, sparta_attr_int(&a->n->attrs, "axis", 0), rank, &axis));
    for (int i = 0; i < a->n->n_in; i++) known &= sparta_expr_is_const(a->n->in[i]->dims.dim[axis], NULL);
    if (!known && a->n->n_in + rank > SPARTA_LABELS) return SPARTA_OK;
    SPARTA_TRY(sparta_axes_labels(a, a->n->out[0], label));
    a->how = SPARTA_FLOW_MOVE;
    a->out[0].role = SPARTA_ARG;
    for (int k = 0; k < rank; k++) a->out[0].axis[k] = sparta_axis_of(label[k]);
    for (int i = 0; i < a->n->n_in; i++) {
        a->in[i] = a->out[0];
        a->in[i].axis[axis] = sparta_axis_window(label[axis], from, 1);
        if (sparta_expr_is_const(a->n->in[i]->dims.dim[axis], &size)) from += size;
    }
    return known ? SPARTA_OK : somewhere(a, axis);
}

const sparta_flow sparta_flow_Concat = {SPARTA_EXACT, "the same elements side by side", "any", "", axes,
                                        NULL};
