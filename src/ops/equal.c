/* Equal: bools; the dims of both inputs broadcast against each other. Comparisons of sizes are decided where
 * they can be. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sp_shape_Equal(sp_graph *g, sp_node *n)
{
    return sp_ops_compare(g, n, SP_ANY, sp_ints_equal);
}

const sp_flow sp_flow_Equal = {SP_EXACT, "element by element", "any", "", sp_flow_each, NULL};
