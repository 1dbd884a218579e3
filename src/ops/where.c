/* Where: the dims of condition and both choices broadcast against each other. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_Where(sparta_graph *g, sparta_node *n)
{
    sparta_dims dims;
    SPARTA_TRY(sparta_ops_types(g, n, 0, SPARTA_BOOLS));
    SPARTA_TRY(sparta_ops_same_type(g, n, 1, 2));
    SPARTA_TRY(sparta_ops_broadcast(g, n, &n->in[1]->dims, &n->in[2]->dims, &dims));
    SPARTA_TRY(sparta_ops_broadcast(g, n, &n->in[0]->dims, &dims, &dims));
    sparta_ops_set(n, 0, n->in[1]->dtype, &dims);
    return sparta_ops_move(g, n, 1 << 1 | 1 << 2);
}

const sparta_flow sparta_flow_Where = {SPARTA_EXACT, "element by element", "any", "", sparta_flow_each, NULL};
