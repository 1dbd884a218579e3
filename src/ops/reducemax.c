/* ReduceMax: the dims that the second input names become 1, or go when attribute keepdims=0. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sp_shape_ReduceMax(sp_graph *g, sp_node *n)
{
    return sp_ops_reduce(g, n, SP_ANY, sp_ints_max);
}

static sparta_status axes(sp_axes *a)
{
    return sp_flow_reduce(a, SP_FLOW_FUNCTION, SP_WHOLE, "a maximum runs over them");
}

const sp_flow sp_flow_ReduceMax = {
    SP_EXACT, "known where all it compares is, which stays", "any", "axes that are computed", axes, NULL};
