/* Sub: the dims of both inputs broadcast against each other; contents of sizes are followed. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_Sub(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_binary(g, n, SPARTA_NUMBERS, sparta_ints_sub);
}

const sparta_flow sparta_flow_Sub = {SPARTA_EXACT, "element by element", "numbers",
                                     "",           sparta_flow_each,     NULL};
