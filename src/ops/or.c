/* Or: bools; the dims of both inputs broadcast against each other. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_Or(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_binary(g, n, SPARTA_BOOLS, NULL);
}

static sparta_status axes(sparta_axes *a)
{
    SPARTA_TRY(sparta_flow_each(a));
    for (int i = 0; i < 2; i++) a->in[i].hides[true] = 1 << !i;
    return SPARTA_OK;
}

const sparta_flow sparta_flow_Or = {SPARTA_EXACT, "true where an input is", "bools", "", axes, NULL};
