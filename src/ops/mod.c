/* Mod: the dims of both inputs broadcast against each other. Floats need attribute fmod=1. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sp_shape_Mod(sp_graph *g, sp_node *n)
{
    if (sp_dtype_is_float(n->in[0]->dtype) && !sp_attr_int(&n->attrs, "fmod", 0))
        return sp_ops_fail(g, n, SPARTA_E_DTYPE, "the inputs are %s, which needs attribute fmod=1",
                           sparta_dtype_name(n->in[0]->dtype));
    return sp_ops_binary(g, n, SP_NUMBERS, sp_ints_mod);
}

const sp_flow sp_flow_Mod = {SP_EXACT, "element by element", "numbers", "floats without fmod=1", sp_flow_each,
                             NULL};
