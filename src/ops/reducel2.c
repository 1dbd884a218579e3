/* ReduceL2: the dims that the second input names become 1, or go when attribute keepdims=0. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_ReduceL2(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_reduce(g, n, SPARTA_NUMBERS, NULL);
}

static sparta_status axes(sparta_axes *a)
{
    return sparta_flow_reduce(a, SPARTA_FLOW_FUNCTION, SPARTA_WHOLE, "a norm runs over them");
}

const sparta_flow sparta_flow_ReduceL2 = {SPARTA_EXACT, "known where all it runs over is, which stays",
                                          "floats",     "axes that are computed",
                                          axes,         NULL};
