/* Hardmax: type and dims of the input; attribute axis is one of them. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sparta_shape_Hardmax(sparta_graph *g, sparta_node *n)
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
    a->no_values =
        true; /* of a line that is one constant the first element is 1: lines that are alike do not stay so */
    return sparta_flow_along(a, whole, "a maximum runs over them");
}

const sparta_flow sparta_flow_Hardmax = {
    SPARTA_CONSERVATIVE,
    "line by line along the axis, whose elements all stay; nothing is known of what it marks",
    "floats",
    "",
    axes,
    NULL};
