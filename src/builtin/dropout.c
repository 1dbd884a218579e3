/* Dropout: y = x, mask = true everywhere: inference. Training (third input true with a ratio above 0) draws
 * random numbers and is not supported. */
#include "builtin/elementwise.h"

sparta_status sparta_builtin_Dropout(sparta_ctx *cx, const sparta_op_args *args)
{
    bool training = sparta_op_has(args, 2) && sparta_element_get_int(SPARTA_BOOL, args->in[2].data, 0);
    double ratio = sparta_op_has(args, 1) ? sparta_element_get(args->in[1].dtype, args->in[1].data, 0) : 0.5;
    if (training && ratio != 0)
        return sparta_fail(cx, SPARTA_E_UNSUPPORTED,
                           "Dropout: training_mode is true (ratio %g); export the model in evaluation mode",
                           ratio);
    if (args->n_out > 1 && args->out[1].rank >= 0) {
        const sparta_tensor *mask = &args->out[1];
        for (sparta_walk w = sparta_walk_begin(mask->rank, mask->dim, 1, &mask); w.more; sparta_walk_next(&w))
            sparta_element_set_int(SPARTA_BOOL, mask->data, w.at[0], 1);
    }
    return sparta_builtin_convert(cx, &args->in[0], &args->out[0]);
}
