/* IsNaN: bools with the dims of the input. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sp_shape_IsNaN(sp_graph *g, sp_node *n)
{
    return sp_ops_test(g, n, SP_FLOATS);
}

const sp_flow sp_flow_IsNaN = {SP_EXACT, "element by element", "floats", "", sp_flow_each, NULL};
