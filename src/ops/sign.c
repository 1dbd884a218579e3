/* Sign: type and dims of the input. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sparta_shape_Sign(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_unary(g, n, SPARTA_NUMBERS);
}

const sparta_flow sparta_flow_Sign = {SPARTA_EXACT, "element by element", "numbers",
                                      "",           sparta_flow_each,     NULL};
