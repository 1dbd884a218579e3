/* Clip: type and dims of the first input; the limits are scalars of its type or absent. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sparta_shape_Clip(sparta_graph *g, sparta_node *n)
{
    for (int i = 1; i < 3; i++) {
        SPARTA_TRY(sparta_ops_same_type(g, n, 0, i));
        SPARTA_TRY(sparta_ops_scalar(g, n, i));
    }
    return sparta_ops_unary(g, n, SPARTA_NUMBERS);
}

const sparta_flow sparta_flow_Clip = {SPARTA_EXACT, "element by element", "numbers",
                                      "",           sparta_flow_each,     NULL};
