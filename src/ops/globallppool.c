/* GlobalLpPool: (N, C, in...) gives (N, C, 1, ...). */
#include "ops/flow.h"
#include "ops/window.h"

sparta_status sparta_shape_GlobalLpPool(sparta_graph *g, sparta_node *n)
{
    const int64_t p = sparta_attr_int(&n->attrs, "p", 2);
    if (p < 1) return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "p is %lld; at least 1", (long long)p);
    return sparta_ops_pool_all(g, n);
}

static sparta_status axes(sparta_axes *a)
{
    return sparta_flow_pool_all(a, SPARTA_FLOW_PRODUCT, false);
}

const sparta_flow sparta_flow_GlobalLpPool = {
    SPARTA_CONSERVATIVE, "channel by channel; zero stays zero", "floats", "", axes, NULL};
