/* Relu: type and dims of the input. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sparta_shape_Relu(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_unary(g, n, SPARTA_FLOATS | SPARTA_SIGNED);
}

const sparta_flow sparta_flow_Relu = {SPARTA_EXACT, "element by element", "floats and signed integers",
                                      "",           sparta_flow_each,     NULL};
