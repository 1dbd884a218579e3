/* ReduceLogSumExp: the dims that the second input names become 1, or go when attribute keepdims=0. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sp_shape_ReduceLogSumExp(sp_graph *g, sp_node *n)
{
    return sp_ops_reduce(g, n, SP_NUMBERS, NULL);
}

static sparta_status axes(sp_axes *a)
{
    return sp_flow_reduce(a, SP_FLOW_FUNCTION, SP_WHOLE, "a sum runs over them");
}

const sp_flow sp_flow_ReduceLogSumExp = {
    SP_EXACT, "known where all it runs over is, which stays", "floats", "axes that are computed", axes, NULL};
