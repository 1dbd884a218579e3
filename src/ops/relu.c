/* Relu: type and dims of the input. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sp_shape_Relu(sp_graph *g, sp_node *n)
{
    return sp_ops_unary(g, n, SP_FLOATS | SP_SIGNED);
}

const sp_flow sp_flow_Relu = {SP_EXACT, "element by element", "floats and signed integers",
                              "",       sp_flow_each,         NULL};
