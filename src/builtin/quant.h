/* Scales and zero points of QuantizeLinear and DequantizeLinear, in the three shapes that ONNX has for x (D0, ..., Di, ..., Dn)
 * and attribute axis = i:
 *
 *     per tensor   one element                   per axis   (Di)                 blocked   (D0, ..., ceil(Di / block_size), ..., Dn)
 */
#ifndef SPARTA_BUILTIN_QUANT_H
#define SPARTA_BUILTIN_QUANT_H

#include "builtin/view.h"

typedef enum { SPARTA_QUANT_TENSOR, SPARTA_QUANT_AXIS, SPARTA_QUANT_BLOCKED } sparta_quant_kind;

typedef struct sparta_quant {
    sparta_quant_kind kind;
    int axis;
    int64_t block;
    const sparta_tensor *scale, *zero; /* zero NULL: 0 */
} sparta_quant;

/* How inputs 1 and 2 belong to the elements of input 0. */
sparta_status sparta_quant_of(sparta_ctx *cx, const sparta_op_args *args, const char *op,
                              sparta_quant *out) SPARTA_MUST;
/* Element offset in the scale or zero point, for the element of x at `index`. */
int64_t sparta_quant_at(const sparta_quant *q, const sparta_tensor *t, const int64_t *index);

#endif
