/* DequantizeLinear: y = (x - zero point) * scale, in double and rounded once to the type of y. */
#include "builtin/quant.h"

sparta_status sparta_builtin_DequantizeLinear(sparta_ctx *cx, const sparta_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0], *both[] = {x, y};
    sparta_quant q;
    SPARTA_TRY(sparta_quant_of(cx, args, "DequantizeLinear", &q));
    for (sparta_walk w = sparta_walk_begin(x->rank, x->dim, 2, both); w.more; sparta_walk_next(&w)) {
        double scale =
            sparta_element_get(q.scale->dtype, q.scale->data, sparta_quant_at(&q, q.scale, w.index));
        int64_t zero =
            q.zero ? sparta_element_get_int(q.zero->dtype, q.zero->data, sparta_quant_at(&q, q.zero, w.index))
                   : 0;
        int64_t v = sparta_element_get_int(x->dtype, x->data, w.at[0]);
        sparta_element_set(y->dtype, y->data, w.at[1], (double)(v - zero) * scale);
    }
    return SPARTA_OK;
}
