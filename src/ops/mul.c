/* Mul: the dims of both inputs broadcast against each other; contents of sizes are followed. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_Mul(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_binary(g, n, SPARTA_NUMBERS, sparta_ints_mul);
}

const sparta_flow sparta_flow_Mul = {SPARTA_EXACT, "zero where a factor is", "numbers",
                                     "",           sparta_flow_times,        NULL};
