/* Mul: the dims of both inputs broadcast against each other; contents of sizes are followed. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sp_shape_Mul(sp_graph *g, sp_node *n)
{
    return sp_ops_binary(g, n, SP_NUMBERS, sp_ints_mul);
}

const sp_flow sp_flow_Mul = {SP_EXACT, "zero where a factor is", "numbers", "", sp_flow_times, NULL};
