/* DequantizeLinear: y = (x - zero point) * scale, in double and rounded once to the type of y. */
#include "builtin/quant.h"

sparta_status sp_builtin_DequantizeLinear(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0], *both[] = {x, y};
    sp_quant q;
    SP_TRY(sp_quant_of(cx, args, "DequantizeLinear", &q));
    for (sp_cursor w = sp_cursor_begin(x->rank, x->dim, 2, both); w.more; sp_cursor_next(&w)) {
        double scale = sp_element_get(q.scale->dtype, q.scale->data, sp_quant_at(&q, q.scale, w.index));
        int64_t zero =
            q.zero ? sp_element_get_int(q.zero->dtype, q.zero->data, sp_quant_at(&q, q.zero, w.index)) : 0;
        int64_t v = sp_element_get_int(x->dtype, x->data, w.at[0]);
        sp_element_set(y->dtype, y->data, w.at[1], (double)(v - zero) * scale);
    }
    return SPARTA_OK;
}
