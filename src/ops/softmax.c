/* Softmax: type and dims of the input; attribute axis is one of them. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sp_shape_Softmax(sp_graph *g, sp_node *n)
{
    int axis, rank = SP_MAX(n->in[0]->dims.rank, 1); /* a scalar is a line of one */
    SP_TRY(sp_ops_axis(g, n, sp_attr_int(&n->attrs, "axis", -1), rank, &axis));
    return sp_ops_unary(g, n, SP_FLOATS);
}

static sparta_status axes(sp_axes *a)
{
    int axis, rank = a->n->in[0]->dims.rank;
    bool whole[SPARTA_RANK] = {false};
    SP_TRY(sp_ops_axis(a->g, a->n, sp_attr_int(&a->n->attrs, "axis", -1), SP_MAX(rank, 1), &axis));
    whole[axis] = true;
    return sp_flow_along(a, whole, "a softmax runs over them");
}

const sp_flow sp_flow_Softmax = {
    SP_EXACT, "line by line along the axis, whose elements all stay", "floats", "", axes, NULL};
