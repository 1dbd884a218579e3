/* Max: the dims of all inputs broadcast against each other; contents of sizes are followed. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sp_shape_Max(sp_graph *g, sp_node *n)
{
    return sp_ops_variadic(g, n, sp_ints_max);
}

const sp_flow sp_flow_Max = {SP_EXACT, "element by element", "numbers", "", sp_flow_each, NULL};
