/* Sign: type and dims of the input. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sp_shape_Sign(sp_graph *g, sp_node *n)
{
    return sp_ops_unary(g, n, SP_NUMBERS);
}

const sp_flow sp_flow_Sign = {SP_EXACT, "element by element", "numbers", "", sp_flow_each, NULL};
