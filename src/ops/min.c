/* Min: the dims of all inputs broadcast against each other; contents of sizes are followed. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_Min(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_variadic(g, n, sparta_ints_min);
}

const sparta_flow sparta_flow_Min = {SPARTA_EXACT, "element by element", "numbers",
                                     "",           sparta_flow_each,     NULL};
