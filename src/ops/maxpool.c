/* MaxPool: (N, C, in...) gives (N, C, out...); the second output, where each element stood, is i64. */
#include "ops/flow.h"
#include "ops/window.h"

sparta_status sparta_shape_MaxPool(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_pool(g, n, SPARTA_FLOATS | SPARTA_TYPE(SPARTA_I8) | SPARTA_TYPE(SPARTA_U8));
}

static sparta_status axes(sparta_axes *a)
{
    return sparta_flow_pool(a, SPARTA_FLOW_FUNCTION, true); /* the border is never the maximum */
}

const sparta_flow sparta_flow_MaxPool = {
    SPARTA_EXACT, "channel by channel; a constant channel stays constant",
    "floats",     "the second output",
    axes,         NULL};
