/* integer.c: products of integers as onnxruntime's quantize_dynamic writes them, as ours: numbers are taken off their zero points, multiplied as
 * f32, and the sums are integers again. A sum is exact up to 2^24; beyond, it is rounded as f32 is, to 6e-8 of it.
 *
 *     x -> DynamicQuantizeLinear -> q, scale, zero        q -> DequantizeLinear(1, zero) \
 *                                                                                        MatMul -> Cast -> i32
 *                                                    weight -> DequantizeLinear(1, zero) /
 */
#include "import/parts.h"

/* ------------------------------------------------------------------ pieces */

/* v without its zero point, as f32; a zero point of several is one of each along `axis`, one of several dims repeats as its dims do. */
static sp_value *centred(sp_parts *p, sp_value *v, sp_value *zero, int64_t axis)
{
    if (!zero) return sp_part_cast(p, v, SPARTA_F32);
    if (zero->typed && zero->dims.rank > 1)
        return PART(p, Sub, sp_part_cast(p, v, SPARTA_F32), sp_part_cast(p, zero, SPARTA_F32));
    int64_t n = 1;
    if (zero->typed && zero->dims.rank && !sp_expr_is_const(zero->dims.dim[0], &n))
        return sp_part_refuse(p, "how many numbers its zero point has is not fixed");
    if (n != 1)
        return PART_WITH(p, DequantizeLinear, SP_ATTRS(SP_INT("axis", axis)), v, sp_part_filled(p, n, 1),
                         zero);
    if (zero->typed && zero->dims.rank) zero = PART(p, Reshape, zero, sp_part_ints(p, 0, &n));
    return PART(p, DequantizeLinear, v, sp_part_number(p, SPARTA_F32, 1), zero);
}

/* As DynamicQuantizeLinear is defined, and where all is zero with a scale of 1, as onnxruntime has it. */
static sp_value *quantised(sp_parts *p, sp_value *x, sp_value *const result[3], sp_value *made[3])
{
    sp_value *zero = sp_part_number(p, SPARTA_F32, 0), *most = sp_part_number(p, SPARTA_F32, 255);
    const sp_attrs *all = SP_ATTRS(SP_INT("keepdims", 0));
    sp_value *low = PART(p, Min, PART_WITH(p, ReduceMin, all, x), zero);
    sp_value *range = PART(p, Sub, PART(p, Max, PART_WITH(p, ReduceMax, all, x), zero), low);
    made[1] = sp_part(p, result[1], SP_OP_Where, NULL, 3,
                      (sp_value *[]){PART(p, Equal, range, zero), sp_part_number(p, SPARTA_F32, 1),
                                     PART(p, Div, range, most)});
    sp_value *place = PART(p, Round, PART(p, Clip, PART(p, Neg, PART(p, Div, low, made[1])), zero, most));
    made[2] =
        sp_part(p, result[2], SP_OP_Cast, SP_ATTRS(SP_INT("to", sp_dtype_to_onnx(SPARTA_U8))), 1, &place);
    return made[0] =
               sp_part(p, result[0], SP_OP_QuantizeLinear, NULL, 3, (sp_value *[]){x, made[1], made[2]});
}

/* ------------------------------------------------------------------ the operators */

static void dynamic_quantize_linear(sp_parts *p)
{
    sp_value *made[3];
    quantised(p, p->in[0], p->out, made);
}

static void integers(sp_parts *p, sp_value *sums)
{
    sp_part(p, p->out[0], SP_OP_Cast, SP_ATTRS(SP_INT("to", sp_dtype_to_onnx(SPARTA_I32))), 1, &sums);
}

static void matmul_integer(sp_parts *p)
{
    integers(p, PART(p, MatMul, centred(p, p->in[0], p->in[2], -2), centred(p, p->in[1], p->in[3], -1)));
}

/* Padding is the zero point, so that it is 0 here. The attributes are Conv's. */
static void conv_integer(sp_parts *p)
{
    sp_value *x = centred(p, p->in[0], p->in[2], 1), *w = centred(p, p->in[1], p->in[3], 0);
    const sp_attrs attrs = {p->n->n_attr, p->n->attr};
    integers(p, PART_WITH(p, Conv, &attrs, x, w));
    p->n->n_attr = 0;
}

/* product * scale [+ bias] */
static void scaled(sp_parts *p, sp_value *product, sp_value *scale, sp_value *bias)
{
    if (!bias)
        RESULT(p, 0, Mul, product, scale);
    else
        RESULT(p, 0, Add, PART(p, Mul, product, scale), bias);
}

/* A, B, b_scale, b_zero_point, bias */
static void dynamic_quantize_matmul(sp_parts *p)
{
    static sp_value *const none[3];
    sp_value *made[3];
    quantised(p, p->in[0], none, made);
    sp_value *product = PART(p, MatMul, centred(p, made[0], made[2], -2), centred(p, p->in[1], p->in[3], -1));
    scaled(p, product, PART(p, Mul, made[1], p->in[2]), p->in[4]);
}

/* A, B, a_scale, b_scale, a_zero_point, b_zero_point, bias */
static void matmul_integer_to_float(sp_parts *p)
{
    sp_value *product =
        PART(p, MatMul, centred(p, p->in[0], p->in[4], -2), centred(p, p->in[1], p->in[5], -1));
    scaled(p, product, PART(p, Mul, p->in[2], p->in[3]), p->in[6]);
}

const sp_part_row sp_integer_rows[] = {
    {"", "DynamicQuantizeLinear", 1, 1, 3, dynamic_quantize_linear,
     "ReduceMin, ReduceMax, QuantizeLinear; a scale of 1 where all is zero"},
    {"", "MatMulInteger", 2, 4, 1, matmul_integer, "MatMul of f32, Cast: sums are exact up to 2^24"},
    {"", "ConvInteger", 2, 4, 1, conv_integer, "Conv of f32, Cast: sums are exact up to 2^24"},
    {"com.microsoft", "DynamicQuantizeMatMul", 3, 5, 1, dynamic_quantize_matmul,
     "DynamicQuantizeLinear, MatMulInteger, Mul, Add"},
    {"com.microsoft", "MatMulIntegerToFloat", 4, 7, 1, matmul_integer_to_float, "MatMul of f32, Mul, Add"},
};
const int sp_integer_n_rows = (int)SP_COUNT(sp_integer_rows);
