/* LogSoftmax: type and dims of the input; attribute axis is one of them. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sparta_shape_LogSoftmax(sparta_graph *g, sparta_node *n)
{
    int axis, rank = SPARTA_MAX(n->in[0]->dims.rank, 1); /* a scalar is a line of one */
    SPARTA_TRY(sparta_ops_axis(g, n, sparta_attr_int(&n->attrs, "axis", -1), rank, &axis));
    return sparta_ops_unary(g, n, SPARTA_FLOATS);
}

static sparta_status axes(sparta_axes *a)
{
    int axis, rank = a->n->in[0]->dims.rank;
    bool whole[SPARTA_RANK] = {false};
    SPARTA_TRY(
        sparta_ops_axis(a->g, a->n, sparta_attr_int(&a->n->attrs, "axis", -1), SPARTA_MAX(rank, 1), &axis));
    whole[axis] = true;
    return sparta_flow_along(a, whole, "a softmax runs over them");
}

const sparta_flow sparta_flow_LogSoftmax = {
    SPARTA_EXACT, "line by line along the axis, whose elements all stay", "floats", "", axes, NULL};
