/* ReduceMean: the dims that the second input names become 1, or go when attribute keepdims=0. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sp_shape_ReduceMean(sp_graph *g, sp_node *n)
{
    return sp_ops_reduce(g, n, SP_NUMBERS, NULL);
}

static sparta_status axes(sp_axes *a)
{
    return sp_flow_reduce(a, SP_FLOW_PRODUCT, SP_SUM, "it divides by how many there are");
}

const sp_flow sp_flow_ReduceMean = {SP_EXACT,  "zero where all it averages is; what it averages stays",
                                    "numbers", "axes that are computed",
                                    axes,      NULL};
