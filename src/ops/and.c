/* And: bools; the dims of both inputs broadcast against each other. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sp_shape_And(sp_graph *g, sp_node *n)
{
    return sp_ops_binary(g, n, SP_BOOLS, NULL);
}

const sp_flow sp_flow_And = {SP_EXACT, "false where an input is", "bools", "", sp_flow_times, NULL};
