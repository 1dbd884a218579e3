/* CastLike: the dims of the first input in the type of the second. */
#include "ops/flow.h"
#include "ops/cast.h"

sparta_status sparta_shape_CastLike(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_cast(g, n, n->in[1]->dtype);
}

/* Of the second input only the type counts. */
static sparta_status axes(sparta_axes *a)
{
    SPARTA_TRY(sparta_flow_same(a));
    a->how = SPARTA_FLOW_FUNCTION;
    return SPARTA_OK;
}

const sparta_flow sparta_flow_CastLike = {
    SPARTA_EXACT, "element by element", "any", "types that sparta does not have", axes, NULL};
