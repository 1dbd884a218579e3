/* Sum and Mean of the inputs, element by element, broadcasting; in double, rounded once. */
#include "builtin/elementwise.h"

static sparta_status add(sparta_ctx *cx, const sparta_tensor *x, const sparta_tensor *out, double *sum)
{
    sparta_tensor wide;
    const sparta_tensor *view = &wide;
    SP_TRY(sp_tensor_broadcast(cx, x, out->rank, out->dim, &wide));
    int64_t i = 0;
    for (sp_cursor w = sp_cursor_begin(out->rank, out->dim, 1, &view); w.more; sp_cursor_next(&w))
        sum[i++] += sp_element_get(wide.dtype, wide.data, w.at[0]);
    return SPARTA_OK;
}

static sparta_status sum_of(sparta_ctx *cx, const sp_op_args *args, double divisor)
{
    const sparta_tensor *out = &args->out[0];
    double *sum = sp_alloc_array(cx, (size_t)sparta_tensor_elements(out), sizeof *sum);
    SP_NEED(cx, sum);
    sparta_status status = SPARTA_OK;
    for (int64_t i = 0; i < sparta_tensor_elements(out); i++)
        sum[i] = -0.0; /* -0 + x is x, also when x is -0 */
    for (int i = 0; i < args->n_in && status == SPARTA_OK; i++) status = add(cx, &args->in[i], out, sum);
    int64_t i = 0;
    for (sp_cursor w = sp_cursor_begin(out->rank, out->dim, 1, &out); status == SPARTA_OK && w.more;
         sp_cursor_next(&w))
        sp_element_set(out->dtype, out->data, w.at[0], sum[i++] / divisor);
    sp_free(cx, sum);
    return status;
}

SP_REFERENCE(Sum, sum_of(cx, args, 1))
SP_REFERENCE(Mean, sum_of(cx, args, args->n_in))
