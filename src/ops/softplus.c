/* Softplus: type and dims of the input. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sp_shape_Softplus(sp_graph *g, sp_node *n)
{
    return sp_ops_unary(g, n, SP_FLOATS);
}

const sp_flow sp_flow_Softplus = {SP_EXACT, "element by element", "floats", "", sp_flow_each, NULL};
