/* What the rules of QuantizeLinear and DequantizeLinear share. */
#ifndef SP_OPS_QUANT_H
#define SP_OPS_QUANT_H

#include "ops/flow.h"
#include "ops/rule.h"

#define SP_QUANT_TYPES                                                                                       \
    (SP_TYPE(SPARTA_I8) | SP_TYPE(SPARTA_U8) | SP_TYPE(SPARTA_I16) | SP_TYPE(SPARTA_U16) | SP_NARROW)
#define SP_QUANT_FLOATS (SP_TYPE(SPARTA_F32) | SP_TYPE(SPARTA_F16) | SP_TYPE(SPARTA_BF16))

/* Inputs 1 and 2, the scale and the zero point, have a shape that belongs to x (builtin/quant.h). */
sparta_status sp_ops_quant(sp_graph *g, const sp_node *n) SP_MUST;
/* The type that an attribute holds, one of `types`; `out` stays when it is absent or 0. */
sparta_status sp_ops_quant_type(sp_graph *g, const sp_node *n, const char *attribute, unsigned types,
                                sparta_dtype *out) SP_MUST;
sparta_status sp_flow_quant(sp_axes *a) SP_MUST;

#endif
