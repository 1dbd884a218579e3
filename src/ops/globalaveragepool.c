/* GlobalAveragePool: (N, C, in...) gives (N, C, 1, ...). */
#include "ops/flow.h"
#include "ops/window.h"

sparta_status sp_shape_GlobalAveragePool(sp_graph *g, sp_node *n)
{
    return sp_ops_pool_all(g, n);
}

static sparta_status axes(sp_axes *a)
{
    return sp_flow_pool_all(a, SP_FLOW_PRODUCT, true);
}

const sp_flow sp_flow_GlobalAveragePool = {SP_EXACT, "channel by channel", "floats", "", axes, NULL};
