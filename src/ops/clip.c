/* Clip: type and dims of the first input; the limits are scalars of its type or absent. */
#include "ops/flow.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    for (int i = 1; i < 3; i++) {
        SP_TRY(sp_ops_same_type(g, n, 0, i));
        SP_TRY(sp_ops_scalar(g, n, i));
    }
    return sp_ops_same(g, n);
}

SP_RULE(Clip, shape, SP_NUMBERS, SP_EXACT, sp_flow_each, NULL, "element by element", "");
