/* And: bools; the dims of both inputs broadcast against each other. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_And(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_binary(g, n, SPARTA_BOOLS, NULL);
}

const sparta_flow sparta_flow_And = {SPARTA_EXACT, "false where an input is", "bools",
                                     "",           sparta_flow_times,         NULL};
