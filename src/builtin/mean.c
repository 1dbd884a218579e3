/* Mean: the mean of the inputs, element by element, broadcasting; in double, rounded once. */
#include "builtin/sum.h"

sparta_status sp_builtin_Mean(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_sum(cx, args, args->n_in);
}
