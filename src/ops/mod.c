/* Mod: the dims of both inputs broadcast against each other. Floats need attribute fmod=1. */
#include "ops/ints.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    if (sp_dtype_is_float(n->in[0]->dtype) && !sp_attr_int(&n->attrs, "fmod", 0))
        return sp_ops_fail(g, n, SPARTA_E_DTYPE, "the inputs are %s, which needs attribute fmod=1",
                           sparta_dtype_name(n->in[0]->dtype));
    return sp_ops_binary(g, n);
}

const sp_rule sp_rule_Mod = {
    shape,        SP_NUMBERS, SP_EXACT,   "element by element", "floats without fmod=1",
    sp_flow_each, NULL,       sp_ints_mod};
