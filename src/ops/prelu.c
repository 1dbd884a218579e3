/* PRelu: type and dims of x; the slope repeats into them. */
#include "ops/flow.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    SP_TRY(sp_ops_same_type(g, n, 0, 1));
    SP_TRY(sp_ops_broadcasts_to(g, n, &n->in[1]->dims, &n->in[0]->dims));
    return sp_ops_same(g, n);
}

SP_RULE(PRelu, shape, SP_WIDE, SP_EXACT, sp_flow_each, NULL, "element by element", "");
