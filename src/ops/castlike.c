/* CastLike: the dims of the first input in the type of the second. */
#include "ops/flow.h"
#include "ops/cast.h"

sparta_status sp_shape_CastLike(sp_graph *g, sp_node *n)
{
    return sp_ops_cast(g, n, n->in[1]->dtype);
}

/* Of the second input only the type counts. */
static sparta_status axes(sp_axes *a)
{
    SP_TRY(sp_flow_same(a));
    a->how = SP_FLOW_FUNCTION;
    return SPARTA_OK;
}

const sp_flow sp_flow_CastLike = {
    SP_EXACT, "element by element", "any", "types that sparta does not have", axes, NULL};
