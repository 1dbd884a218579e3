/* DequantizeLinear: the dims of x; the type of the scale, or of attribute output_dtype. */
#include "ops/flow.h"
#include "ops/quant.h"

sparta_status sparta_shape_DequantizeLinear(sparta_graph *g, sparta_node *n)
{
    sparta_dtype to = n->in[1]->dtype;
    SPARTA_TRY(sparta_ops_types(g, n, 0, SPARTA_QUANT_TYPES | SPARTA_TYPE(SPARTA_I32)));
    SPARTA_TRY(sparta_ops_types(g, n, 1, SPARTA_QUANT_FLOATS));
    SPARTA_TRY(sparta_ops_same_type(g, n, 0, 2));
    SPARTA_TRY(sparta_ops_quant(g, n));
    SPARTA_TRY(sparta_ops_quant_type(g, n, "output_dtype", SPARTA_QUANT_FLOATS, &to));
    sparta_ops_set(n, 0, to, &n->in[0]->dims);
    return SPARTA_OK;
}

const sparta_flow sparta_flow_DequantizeLinear = {
    SPARTA_EXACT,
    "element by element, with the scale of its tensor, index or block",
    "integers of 4 to 32 bits",
    "8-bit floats",
    sparta_flow_quant,
    NULL};
