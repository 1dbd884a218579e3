/* Add: the dims of both inputs broadcast against each other; contents of sizes are followed. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sp_shape_Add(sp_graph *g, sp_node *n)
{
    return sp_ops_binary(g, n, SP_NUMBERS, sp_ints_add);
}

const sp_flow sp_flow_Add = {SP_EXACT, "element by element", "numbers", "", sp_flow_each, NULL};
