/* ReduceSum: the dims that the second input names become 1, or go when attribute keepdims=0. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_ReduceSum(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_reduce(g, n, SPARTA_NUMBERS, sparta_ints_add);
}

static sparta_status axes(sparta_axes *a)
{
    return sparta_flow_reduce(a, SPARTA_FLOW_PRODUCT, SPARTA_SUM, NULL);
}

const sparta_flow sparta_flow_ReduceSum = {SPARTA_EXACT, "zero where all it adds is; zeros that it adds go",
                                           "numbers",    "axes that are computed",
                                           axes,         NULL};
