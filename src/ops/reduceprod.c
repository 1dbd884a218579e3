/* ReduceProd: the dims that the second input names become 1, or go when attribute keepdims=0. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sp_shape_ReduceProd(sp_graph *g, sp_node *n)
{
    return sp_ops_reduce(g, n, SP_NUMBERS, sp_ints_mul);
}

/* One zero is enough. */
static sparta_status axes(sp_axes *a)
{
    SP_TRY(sp_flow_reduce(a, SP_FLOW_PRODUCT, SP_WHOLE, "a product runs over them"));
    a->in[0].hides[false] = 1 << 0;
    return SPARTA_OK;
}

const sp_flow sp_flow_ReduceProd = {SP_EXACT,  "zero where one of those it multiplies is, which all stay",
                                    "numbers", "axes that are computed",
                                    axes,      NULL};
