/* MaxPool: (N, C, in...) gives (N, C, out...); the second output, where each element stood, is i64. */
#include "ops/flow.h"
#include "ops/window.h"

sparta_status sp_shape_MaxPool(sp_graph *g, sp_node *n)
{
    return sp_ops_pool(g, n, SP_FLOATS | SP_TYPE(SPARTA_I8) | SP_TYPE(SPARTA_U8));
}

static sparta_status axes(sp_axes *a)
{
    return sp_flow_pool(a, SP_FLOW_FUNCTION, true); /* the border is never the maximum */
}

const sp_flow sp_flow_MaxPool = {SP_EXACT, "channel by channel; a constant channel stays constant",
                                 "floats", "the second output",
                                 axes,     NULL};
