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

static sparta_status axes(sparta_axes *a)
{
    SPARTA_TRY(sparta_flow_each(a));
    a->in[0].hides[false] = 1 << 1;
    a->in[0].hides[true] = 1 << 2;
    return SPARTA_OK;
}

const sparta_flow sparta_flow_Where = {
    SPARTA_EXACT, "element by element; where the condition is known, the choice it takes alone counts",
    "any",        "",
    axes,         NULL};
