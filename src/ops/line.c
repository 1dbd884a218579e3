/* Softmax, LogSoftmax and Hardmax: type and dims of the input; attribute axis is one of them. */
#include "ops/flow.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    int axis, rank = SP_MAX(n->in[0]->dims.rank, 1); /* a scalar is a line of one */
    SP_TRY(sp_ops_axis(g, n, sp_attr_int(&n->attrs, "axis", -1), rank, &axis));
    return sp_ops_same(g, n);
}

static sparta_status whole_line(sp_axes *a, const char *why)
{
    int axis, rank = a->n->in[0]->dims.rank;
    bool whole[SPARTA_RANK] = {false};
    SP_TRY(sp_ops_axis(a->g, a->n, sp_attr_int(&a->n->attrs, "axis", -1), SP_MAX(rank, 1), &axis));
    whole[axis] = true;
    return sp_flow_along(a, whole, why);
}

static sparta_status softmax_axes(sp_axes *a)
{
    return whole_line(a, "a softmax runs over them");
}

/* Of a line that is one constant the first element is 1: lines that are alike do not stay so. */
static sparta_status hardmax_axes(sp_axes *a)
{
    a->no_values = true;
    return whole_line(a, "a maximum runs over them");
}

SP_RULE(Softmax, shape, SP_FLOATS, SP_EXACT, softmax_axes, NULL,
        "line by line along the axis, whose elements all stay", "");
SP_RULE(LogSoftmax, shape, SP_FLOATS, SP_EXACT, softmax_axes, NULL,
        "line by line along the axis, whose elements all stay", "");
SP_RULE(Hardmax, shape, SP_FLOATS, SP_CONSERVATIVE, hardmax_axes, NULL,
        "line by line along the axis, whose elements all stay; nothing is known of what it marks", "");
