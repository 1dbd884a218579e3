/* ReduceMean: the dims that the second input names become 1, or go when attribute keepdims=0. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_ReduceMean(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_reduce(g, n, SPARTA_NUMBERS, NULL);
}

static sparta_status axes(sparta_axes *a)
{
    return sparta_flow_reduce(a, SPARTA_FLOW_PRODUCT, SPARTA_SUM, "it divides by how many there are");
}

const sparta_flow sparta_flow_ReduceMean = {
    SPARTA_EXACT, "zero where all it averages is; what it averages stays",
    "numbers",    "axes that are computed",
    axes,         NULL};
