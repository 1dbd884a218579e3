/* LpPool: (N, C, in...) gives (N, C, out...); attribute p is at least 1. */
#include "ops/flow.h"
#include "ops/window.h"

sparta_status sp_shape_LpPool(sp_graph *g, sp_node *n)
{
    const int64_t p = sp_attr_int(&n->attrs, "p", 2);
    if (p < 1) return sp_ops_fail(g, n, SPARTA_E_SHAPE, "p is %lld; at least 1", (long long)p);
    return sp_ops_pool(g, n, SP_FLOATS);
}

static sparta_status axes(sp_axes *a)
{
    return sp_flow_pool(a, SP_FLOW_PRODUCT, false);
}

const sp_flow sp_flow_LpPool = {
    SP_CONSERVATIVE, "channel by channel; zero stays zero", "floats", "", axes, NULL};
