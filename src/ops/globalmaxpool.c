/* GlobalMaxPool: (N, C, in...) gives (N, C, 1, ...). */
#include "ops/flow.h"
#include "ops/window.h"

sparta_status sparta_shape_GlobalMaxPool(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_pool_all(g, n);
}

static sparta_status axes(sparta_axes *a)
{
    return sparta_flow_pool_all(a, SPARTA_FLOW_FUNCTION, true);
}

const sparta_flow sparta_flow_GlobalMaxPool = {SPARTA_EXACT, "channel by channel", "floats", "", axes, NULL};
