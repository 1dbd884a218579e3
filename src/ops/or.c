/* Or: bools; the dims of both inputs broadcast against each other. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sp_shape_Or(sp_graph *g, sp_node *n)
{
    return sp_ops_binary(g, n, SP_BOOLS, NULL);
}

static sparta_status axes(sp_axes *a)
{
    SP_TRY(sp_flow_each(a));
    for (int i = 0; i < 2; i++) a->in[i].hides[true] = 1 << !i;
    return SPARTA_OK;
}

const sp_flow sp_flow_Or = {SP_EXACT, "true where an input is", "bools", "", axes, NULL};
