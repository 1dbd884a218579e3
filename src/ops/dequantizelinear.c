/* DequantizeLinear: the dims of x; the type of the scale, or of attribute output_dtype. */
#include "ops/flow.h"
#include "ops/quant.h"

sparta_status sp_shape_DequantizeLinear(sp_graph *g, sp_node *n)
{
    sparta_dtype to = n->in[1]->dtype;
    SP_TRY(sp_ops_types(g, n, 0, SP_QUANT_TYPES | SP_TYPE(SPARTA_I32)));
    SP_TRY(sp_ops_types(g, n, 1, SP_QUANT_FLOATS));
    SP_TRY(sp_ops_same_type(g, n, 0, 2));
    SP_TRY(sp_ops_quant(g, n));
    SP_TRY(sp_ops_quant_type(g, n, "output_dtype", SP_QUANT_FLOATS, &to));
    sp_ops_set(n, 0, to, &n->in[0]->dims);
    return SPARTA_OK;
}

const sp_flow sp_flow_DequantizeLinear = {SP_EXACT,
                                          "element by element, with the scale of its tensor, index or block",
                                          "integers of 4 to 32 bits",
                                          "8-bit floats",
                                          sp_flow_quant,
                                          NULL};
