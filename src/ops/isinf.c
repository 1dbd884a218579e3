/* IsInf: bools with the dims of the input. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sparta_shape_IsInf(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_test(g, n, SPARTA_FLOATS);
}

const sparta_flow sparta_flow_IsInf = {SPARTA_EXACT, "element by element", "floats",
                                       "",           sparta_flow_each,     NULL};
