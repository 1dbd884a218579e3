/* AveragePool: (N, C, in...) gives (N, C, out...). */
#include "ops/flow.h"
#include "ops/window.h"

sparta_status sp_shape_AveragePool(sp_graph *g, sp_node *n)
{
    return sp_ops_pool(g, n, SP_FLOATS);
}

static sparta_status axes(sp_axes *a)
{
    sp_window w;
    SP_TRY(sp_ops_window(a->g, a->n, NULL, &w));
    return sp_flow_pool(a, SP_FLOW_PRODUCT,
                        !sp_window_padded(&w) && !sp_attr_int(&a->n->attrs, "ceil_mode", 0));
}

const sp_flow sp_flow_AveragePool = {
    SP_EXACT, "channel by channel; zero stays zero, a constant stays one where nothing is padded",
    "floats", "",
    axes,     NULL};
