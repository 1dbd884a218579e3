/* Where: the dims of condition and both choices broadcast against each other. */
#include "ops/ints.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    sp_dims dims;
    SP_TRY(sp_ops_types(g, n, 0, SP_BOOLS));
    SP_TRY(sp_ops_same_type(g, n, 1, 2));
    SP_TRY(sp_ops_broadcast(g, n, &n->in[1]->dims, &n->in[2]->dims, &dims));
    SP_TRY(sp_ops_broadcast(g, n, &n->in[0]->dims, &dims, &dims));
    sp_ops_set(n, 0, n->in[1]->dtype, &dims);
    return sp_ops_move(g, n, 1 << 1 | 1 << 2);
}

static sparta_status axes(sp_axes *a)
{
    SP_TRY(sp_flow_each(a));
    a->in[0].hides[false] = 1 << 1;
    a->in[0].hides[true] = 1 << 2;
    return SPARTA_OK;
}

SP_RULE(Where, shape, SP_ALL, SP_EXACT, axes, NULL,
        "element by element; where the condition is known, the choice it takes alone counts", "");
