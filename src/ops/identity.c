/* Identity: everything of the input. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_Identity(sparta_graph *g, sparta_node *n)
{
    SPARTA_TRY(sparta_ops_unary(g, n, SPARTA_ANY | SPARTA_NARROW));
    return sparta_ops_move(g, n, 1);
}

const sparta_flow sparta_flow_Identity = {SPARTA_EXACT, "the same elements", "any",
                                          "",           sparta_flow_same,    NULL};
