/* Scales and zero points of QuantizeLinear and DequantizeLinear, in the three shapes that ONNX has for x (D0, ..., Di, ..., Dn)
 * and attribute axis = i:
 *
 *     per tensor   one element                   per axis   (Di)                 blocked   (D0, ..., ceil(Di / block_size), ..., Dn)
 */
#ifndef SP_BUILTIN_QUANT_H
#define SP_BUILTIN_QUANT_H

#include "builtin/view.h"

typedef enum { SP_QUANT_TENSOR, SP_QUANT_AXIS, SP_QUANT_BLOCKED } sp_quant_kind;

typedef struct sp_quant {
    sp_quant_kind kind;
    int axis;
    int64_t block;
    const sparta_tensor *scale, *zero; /* zero NULL: 0 */
} sp_quant;

/* How inputs 1 and 2 belong to the elements of input 0. */
sparta_status sp_quant_of(sparta_ctx *cx, const sp_op_args *args, const char *op, sp_quant *out) SP_MUST;
/* Element offset in the scale or zero point, for the element of x at `index`. */
int64_t sp_quant_at(const sp_quant *q, const sparta_tensor *t, const int64_t *index);

#endif
