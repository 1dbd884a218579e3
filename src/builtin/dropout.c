/* Dropout: y = x, mask = true everywhere: inference. Training (third input true with a ratio above 0) draws
 * random numbers and is not supported. */
#include "builtin/elementwise.h"

sparta_status sp_builtin_Dropout(sparta_ctx *cx, const sp_op_args *args)
{
    bool training = sp_op_has(args, 2) && sp_element_get_int(SPARTA_BOOL, args->in[2].data, 0);
    double ratio = sp_op_has(args, 1) ? sp_element_get(args->in[1].dtype, args->in[1].data, 0) : 0.5;
    if (training && ratio != 0)
        return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                       "Dropout: training_mode is true (ratio %g); export the model in evaluation mode",
                       ratio);
    if (args->n_out > 1 && args->out[1].rank >= 0) {
        const sparta_tensor *mask = &args->out[1];
        for (sp_cursor w = sp_cursor_begin(mask->rank, mask->dim, 1, &mask); w.more; sp_cursor_next(&w))
            sp_element_set_int(SPARTA_BOOL, mask->data, w.at[0], 1);
    }
    return sp_builtin_convert(cx, &args->in[0], &args->out[0]);
}
