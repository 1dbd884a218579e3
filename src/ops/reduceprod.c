/* ReduceProd: the dims that the second input names become 1, or go when attribute keepdims=0. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_ReduceProd(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_reduce(g, n, SPARTA_NUMBERS, sparta_ints_mul);
}

/* One zero is enough. */
static sparta_status axes(sparta_axes *a)
{
    SPARTA_TRY(sparta_flow_reduce(a, SPARTA_FLOW_PRODUCT, SPARTA_WHOLE, "a product runs over them"));
    a->in[0].hides[false] = 1 << 0;
    return SPARTA_OK;
}

const sparta_flow sparta_flow_ReduceProd = {
    SPARTA_EXACT, "zero where one of those it multiplies is, which all stay",
    "numbers",    "axes that are computed",
    axes,         NULL};
