/* PRelu: type and dims of x; the slope repeats into them. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sparta_shape_PRelu(sparta_graph *g, sparta_node *n)
{
    SPARTA_TRY(sparta_ops_same_type(g, n, 0, 1));
    SPARTA_TRY(sparta_ops_broadcasts_to(g, n, &n->in[1]->dims, &n->in[0]->dims));
    return sparta_ops_unary(
        g, n, SPARTA_FLOATS | SPARTA_INDICES | SPARTA_TYPE(SPARTA_U32) | SPARTA_TYPE(SPARTA_U64));
}

const sparta_flow sparta_flow_PRelu = {SPARTA_EXACT, "element by element", "floats",
                                       "",           sparta_flow_each,     NULL};
