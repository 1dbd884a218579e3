/* QuantizeLinear: y = x / scale, rounded to the nearest whole number (the even one of two), + zero point, kept inside of the type of
 * y. The quotient is rounded to attribute precision, or to the type of the scale, as the division would be. A NaN is the lowest
 * number of the type, as ONNX's reference has it. */
#include "builtin/quant.h"
#include <math.h>

static double rounded(sparta_dtype dtype, double x)
{
    uint64_t room;
    sp_element_set(dtype, &room, 0, x);
    return sp_element_get(dtype, &room, 0);
}

static int64_t quantize(double x, double scale, int64_t zero, sparta_dtype precision, sparta_dtype to)
{
    const double lowest = (double)sp_dtype_lowest(to), highest = (double)sp_dtype_highest(to);
    double y = nearbyint(rounded(precision, rounded(precision, x) / scale)) + (double)zero;
    if (!(y > lowest)) y = lowest; /* NaN too */
    return (int64_t)(y < highest ? y : highest);
}

sparta_status sp_builtin_QuantizeLinear(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0], *both[] = {x, y};
    sp_quant q;
    SP_TRY(sp_quant_of(cx, args, "QuantizeLinear", &q));
    sparta_dtype precision = q.scale->dtype;
    if (sp_attr_int(args->attrs, "precision", 0))
        (void)sp_dtype_from_onnx(sp_attr_int(args->attrs, "precision", 0), &precision);
    for (sp_cursor w = sp_cursor_begin(x->rank, x->dim, 2, both); w.more; sp_cursor_next(&w)) {
        double scale = sp_element_get(q.scale->dtype, q.scale->data, sp_quant_at(&q, q.scale, w.index));
        int64_t zero =
            q.zero ? sp_element_get_int(q.zero->dtype, q.zero->data, sp_quant_at(&q, q.zero, w.index)) : 0;
        double v = sp_element_get(x->dtype, x->data, w.at[0]);
        sp_element_set_int(y->dtype, y->data, w.at[1], quantize(v, scale, zero, precision, y->dtype));
    }
    return SPARTA_OK;
}
