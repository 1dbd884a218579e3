/* Mean: the mean of the inputs, element by element, broadcasting; in double, rounded once. */
#include "builtin/sum.h"

sparta_status sparta_builtin_Mean(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_sum(cx, args, args->n_in);
}
