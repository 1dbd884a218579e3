/* What the rules of QuantizeLinear and DequantizeLinear share. */
#ifndef SPARTA_OPS_QUANT_H
#define SPARTA_OPS_QUANT_H

#include "ops/flow.h"
#include "ops/rule.h"

#define SPARTA_QUANT_TYPES                                                                                   \
    (SPARTA_TYPE(SPARTA_I8) | SPARTA_TYPE(SPARTA_U8) | SPARTA_TYPE(SPARTA_I16) | SPARTA_TYPE(SPARTA_U16) |   \
     SPARTA_NARROW)
#define SPARTA_QUANT_FLOATS (SPARTA_TYPE(SPARTA_F32) | SPARTA_TYPE(SPARTA_F16) | SPARTA_TYPE(SPARTA_BF16))

/* Inputs 1 and 2, the scale and the zero point, have a shape that belongs to x (builtin/quant.h). */
sparta_status sparta_ops_quant(sparta_graph *g, const sparta_node *n) SPARTA_MUST;
/* The type that an attribute holds, one of `types`; `out` stays when it is absent or 0. */
sparta_status sparta_ops_quant_type(sparta_graph *g, const sparta_node *n, const char *attribute,
                                    unsigned types, sparta_dtype *out) SPARTA_MUST;
sparta_status sparta_flow_quant(sparta_axes *a) SPARTA_MUST;

#endif
