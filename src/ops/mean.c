/* Mean: the dims of all inputs broadcast against each other. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_Mean(sparta_graph *g, sparta_node *n)
{
    SPARTA_TRY(sparta_ops_types(g, n, 0, SPARTA_FLOATS));
    return sparta_ops_variadic(g, n, NULL);
}

const sparta_flow sparta_flow_Mean = {SPARTA_EXACT, "element by element", "floats",
                                      "",           sparta_flow_each,     NULL};
