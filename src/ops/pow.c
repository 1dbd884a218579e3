/* Pow: the dims of both inputs broadcast against each other; the type is that of the base. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sparta_shape_Pow(sparta_graph *g, sparta_node *n)
{
    sparta_dims dims;
    SPARTA_TRY(sparta_ops_types(g, n, 0, SPARTA_FLOATS | SPARTA_INDICES));
    SPARTA_TRY(sparta_ops_types(g, n, 1, SPARTA_NUMBERS));
    SPARTA_TRY(sparta_ops_broadcast(g, n, &n->in[0]->dims, &n->in[1]->dims, &dims));
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return SPARTA_OK;
}

/* To the power 0 everything is 1, NaN too. */
static sparta_status axes(sparta_axes *a)
{
    SPARTA_TRY(sparta_flow_each(a));
    a->in[1].hides[false] = 1 << 0;
    return SPARTA_OK;
}

const sparta_flow sparta_flow_Pow = {
    SPARTA_EXACT, "element by element; 1 where the power is 0", "floats and 32/64-bit integers", "", axes,
    NULL};
