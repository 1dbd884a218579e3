/* Clip: type and dims of the first input; the limits are scalars of its type or absent. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sp_shape_Clip(sp_graph *g, sp_node *n)
{
    for (int i = 1; i < 3; i++) {
        SP_TRY(sp_ops_same_type(g, n, 0, i));
        SP_TRY(sp_ops_scalar(g, n, i));
    }
    return sp_ops_unary(g, n, SP_NUMBERS);
}

const sp_flow sp_flow_Clip = {SP_EXACT, "element by element", "numbers", "", sp_flow_each, NULL};
