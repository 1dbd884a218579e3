/* Identity: everything of the input. */
#include "ops/ints.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    SP_TRY(sp_ops_same(g, n));
    return sp_ops_move(g, n, 1);
}

SP_RULE(Identity, shape, SP_ALL, SP_EXACT, sp_flow_same, NULL, "the same elements", "");
