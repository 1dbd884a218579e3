/* LpPool: (N, C, in...) gives (N, C, out...); attribute p is at least 1. */
#include "ops/flow.h"
#include "ops/window.h"

sparta_status sparta_shape_LpPool(sparta_graph *g, sparta_node *n)
{
    const int64_t p = sparta_attr_int(&n->attrs, "p", 2);
    if (p < 1) return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "p is %lld; at least 1", (long long)p);
    return sparta_ops_pool(g, n, SPARTA_FLOATS);
}

static sparta_status axes(sparta_axes *a)
{
    return sparta_flow_pool(a, SPARTA_FLOW_PRODUCT, false);
}

const sparta_flow sparta_flow_LpPool = {
    SPARTA_CONSERVATIVE, "channel by channel; zero stays zero", "floats", "", axes, NULL};
