/* GlobalLpPool: (N, C, in...) gives (N, C, 1, ...). */
#include "ops/flow.h"
#include "ops/window.h"

sparta_status sp_shape_GlobalLpPool(sp_graph *g, sp_node *n)
{
    const int64_t p = sp_attr_int(&n->attrs, "p", 2);
    if (p < 1) return sp_ops_fail(g, n, SPARTA_E_SHAPE, "p is %lld; at least 1", (long long)p);
    return sp_ops_pool_all(g, n);
}

static sparta_status axes(sp_axes *a)
{
    return sp_flow_pool_all(a, SP_FLOW_PRODUCT, false);
}

const sp_flow sp_flow_GlobalLpPool = {
    SP_CONSERVATIVE, "channel by channel; zero stays zero", "floats", "", axes, NULL};
