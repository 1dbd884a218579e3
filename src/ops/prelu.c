/* PRelu: type and dims of x; the slope repeats into them. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sp_shape_PRelu(sp_graph *g, sp_node *n)
{
    SP_TRY(sp_ops_same_type(g, n, 0, 1));
    SP_TRY(sp_ops_broadcasts_to(g, n, &n->in[1]->dims, &n->in[0]->dims));
    return sp_ops_unary(g, n, SP_FLOATS | SP_INDICES | SP_TYPE(SPARTA_U32) | SP_TYPE(SPARTA_U64));
}

const sp_flow sp_flow_PRelu = {SP_EXACT, "element by element", "floats", "", sp_flow_each, NULL};
