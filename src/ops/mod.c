/* Mod: the dims of both inputs broadcast against each other. Floats need attribute fmod=1. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_Mod(sparta_graph *g, sparta_node *n)
{
    if (sparta_dtype_is_float(n->in[0]->dtype) && !sparta_attr_int(&n->attrs, "fmod", 0))
        return sparta_ops_fail(g, n, SPARTA_E_DTYPE, "the inputs are %s, which needs attribute fmod=1",
                               sparta_dtype_name(n->in[0]->dtype));
    return sparta_ops_binary(g, n, SPARTA_NUMBERS, sparta_ints_mod);
}

const sparta_flow sparta_flow_Mod = {
    SPARTA_EXACT, "element by element", "numbers", "floats without fmod=1", sparta_flow_each, NULL};
