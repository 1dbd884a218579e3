/* Xor: bools; the dims of both inputs broadcast against each other. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_Xor(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_binary(g, n, SPARTA_BOOLS, NULL);
}

const sparta_flow sparta_flow_Xor = {SPARTA_EXACT, "element by element", "bools", "", sparta_flow_each, NULL};
