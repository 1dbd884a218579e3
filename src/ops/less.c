/* Less: bools; the dims of both inputs broadcast against each other. Comparisons of sizes are decided where
 * they can be. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sp_shape_Less(sp_graph *g, sp_node *n)
{
    return sp_ops_compare(g, n, SP_NUMBERS, sp_ints_less);
}

const sp_flow sp_flow_Less = {SP_EXACT, "element by element", "numbers", "", sp_flow_each, NULL};
