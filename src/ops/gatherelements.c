/* GatherElements: the dims of the indices, which have the rank of x. */
#include "ops/ints.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    int axis;
    SP_TRY(sp_ops_types(g, n, 1, SP_INDICES));
    SP_TRY(sp_ops_axis(g, n, sp_attr_int(&n->attrs, "axis", 0), n->in[0]->dims.rank, &axis));
    SP_TRY(sp_ops_rank(g, n, 1, n->in[0]->dims.rank, n->in[0]->dims.rank));
    sp_ops_set(n, 0, n->in[0]->dtype, &n->in[1]->dims);
    return sp_ops_move(g, n, 1);
}

/* x: L j, indices and y: i j. Along an axis of which y has less than x nothing is said. */
static sparta_status axes(sp_axes *a)
{
    static const char why[] = "which of them it takes is known only as the model runs";
    const sp_dims *x = &a->n->in[0]->dims, *y = &a->n->out[0]->dims;
    int axis, l, from;
    SP_TRY(sp_ops_axis(a->g, a->n, sp_attr_int(&a->n->attrs, "axis", 0), x->rank, &axis));
    a->how = SP_FLOW_PRODUCT;
    a->no_values = true;
    a->in[0].role = SP_FACTOR;
    a->in[1].role = a->out[0].role = SP_ARG;
    for (int i = 0; i < x->rank; i++) {
        SP_TRY(sp_axes_label(a, y->dim[i], SP_EACH, NULL, &l));
        a->in[1].axis[i] = a->out[0].axis[i] = a->in[0].axis[i] = sp_axis_of(l);
        if (i != axis && sp_expr_equal(x->dim[i], y->dim[i])) continue;
        if (i != axis) a->label[l].why = why;
        SP_TRY(sp_axes_label(a, x->dim[i], SP_SUM, why, &from));
        a->in[0].axis[i] = sp_axis_of(from);
    }
    return SPARTA_OK;
}

SP_RULE(GatherElements, shape, SP_ALL, SP_CONSERVATIVE, axes, NULL,
        "zero where all it chooses from is, which stays", "");
