/* Not: type and dims of the input. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sp_shape_Not(sp_graph *g, sp_node *n)
{
    return sp_ops_unary(g, n, SP_BOOLS);
}

const sp_flow sp_flow_Not = {SP_EXACT, "element by element", "bools", "", sp_flow_each, NULL};
