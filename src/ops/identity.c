/* Identity: everything of the input. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sp_shape_Identity(sp_graph *g, sp_node *n)
{
    SP_TRY(sp_ops_unary(g, n, SP_ANY | SP_NARROW));
    return sp_ops_move(g, n, 1);
}

const sp_flow sp_flow_Identity = {SP_EXACT, "the same elements", "any", "", sp_flow_same, NULL};
