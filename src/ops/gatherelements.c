/* GatherElements: the dims of the indices, which have the rank of x. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_GatherElements(sparta_graph *g, sparta_node *n)
{
    int axis;
    SPARTA_TRY(sparta_ops_types(g, n, 1, SPARTA_INDICES));
    SPARTA_TRY(sparta_ops_axis(g, n, sparta_attr_int(&n->attrs, "axis", 0), n->in[0]->dims.rank, &axis));
    SPARTA_TRY(sparta_ops_rank(g, n, 1, n->in[0]->dims.rank, n->in[0]->dims.rank));
    sparta_ops_set(n, 0, n->in[0]->dtype, &n->in[1]->dims);
    return sparta_ops_move(g, n, 1);
}

/* x: L j, indices and y: i j. Along an axis of which y has less than x nothing is said. */
static sparta_status axes(sparta_axes *a)
{
    static const char why[] = "which of them it takes is known only as the model runs";
    const sparta_dims *x = &a->n->in[0]->dims, *y = &a->n->out[0]->dims;
    int axis, l, from;
    SPARTA_TRY(sparta_ops_axis(a->g, a->n, sparta_attr_int(&a->n->attrs, "axis", 0), x->rank, &axis));
    a->how = SPARTA_FLOW_PRODUCT;
    a->no_values = true;
    a->in[0].role = SPARTA_FACTOR;
    a->in[1].role = a->out[0].role = SPARTA_ARG;
    for (int i = 0; i < x->rank; i++) {
        SPARTA_TRY(sparta_axes_label(a, y->dim[i], SPARTA_EACH, NULL, &l));
        a->in[1].axis[i] = a->out[0].axis[i] = a->in[0].axis[i] = sparta_axis_of(l);
        if (i != axis && sparta_expr_equal(x->dim[i], y->dim[i])) continue;
        if (i != axis) a->label[l].why = why;
        SPARTA_TRY(sparta_axes_label(a, x->dim[i], SPARTA_SUM, why, &from));
        a->in[0].axis[i] = sparta_axis_of(from);
    }
    return SPARTA_OK;
}

const sparta_flow sparta_flow_GatherElements = {
    SPARTA_CONSERVATIVE, "zero where all it chooses from is, which stays", "any", "", axes, NULL};
