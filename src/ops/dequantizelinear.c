/* DequantizeLinear: the dims of x; the type of the scale, or of attribute output_dtype. */
#include "ops/flow.h"
#include "ops/quant.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    sparta_dtype to = n->in[1]->dtype;
    SP_TRY(sp_ops_types(g, n, 1, SP_QUANT_FLOATS));
    SP_TRY(sp_ops_same_type(g, n, 0, 2));
    SP_TRY(sp_ops_quant(g, n));
    SP_TRY(sp_ops_quant_type(g, n, "output_dtype", SP_QUANT_FLOATS, &to));
    return sp_ops_done(n, to, &n->in[0]->dims);
}

SP_RULE(DequantizeLinear, shape, SP_QUANT_TYPES | SP_TYPE(SPARTA_I32), SP_EXACT, sp_flow_quant, NULL,
        "element by element, with the scale of its tensor, index or block", "8-bit floats");
