/* Pow: the dims of both inputs broadcast against each other; the type is that of the base. */
#include "ops/flow.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    sp_dims dims;
    SP_TRY(sp_ops_types(g, n, 1, SP_NUMBERS));
    SP_TRY(sp_ops_broadcast(g, n, &n->in[0]->dims, &n->in[1]->dims, &dims));
    return sp_ops_done(n, n->in[0]->dtype, &dims);
}

/* To the power 0 everything is 1, NaN too. */
static sparta_status axes(sp_axes *a)
{
    SP_TRY(sp_flow_each(a));
    a->in[1].hides[false] = 1 << 0;
    return SPARTA_OK;
}

SP_RULE(Pow, shape, SP_FLOATS | SP_INDICES, SP_EXACT, axes, NULL,
        "element by element; 1 where the power is 0", "");
