/* AveragePool: (N, C, in...) gives (N, C, out...). */
#include "ops/flow.h"
#include "ops/window.h"

sparta_status sparta_shape_AveragePool(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_pool(g, n, SPARTA_FLOATS);
}

static sparta_status axes(sparta_axes *a)
{
    sparta_window w;
    SPARTA_TRY(sparta_ops_window(a->g, a->n, NULL, &w));
    return sparta_flow_pool(a, SPARTA_FLOW_PRODUCT,
                            !sparta_window_padded(&w) && !sparta_attr_int(&a->n->attrs, "ceil_mode", 0));
}

const sparta_flow sparta_flow_AveragePool = {
    SPARTA_EXACT, "channel by channel; zero stays zero, a constant stays one where nothing is padded",
    "floats",     "",
    axes,         NULL};
