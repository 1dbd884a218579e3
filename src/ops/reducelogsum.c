/* ReduceLogSum: the dims that the second input names become 1, or go when attribute keepdims=0. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_ReduceLogSum(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_reduce(g, n, SPARTA_NUMBERS, NULL);
}

static sparta_status axes(sparta_axes *a)
{
    return sparta_flow_reduce(a, SPARTA_FLOW_FUNCTION, SPARTA_WHOLE, "a sum runs over them");
}

const sparta_flow sparta_flow_ReduceLogSum = {SPARTA_EXACT, "known where all it runs over is, which stays",
                                              "floats",     "axes that are computed",
                                              axes,         NULL};
