/* Softmax: y = e^(x - max) / sum of e^(x - max) along attribute axis (-1). Entries of -inf are 0; a line of
 * nothing but -inf has no maximum to subtract (-inf - -inf) and is NaN, as IEEE says. */
#include "builtin/line.h"
#include <math.h>

void sp_line_softmax(double *x, int64_t n)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    for (int64_t i = 0; i < n; i++) sum += x[i] = exp(x[i] - max);
    for (int64_t i = 0; i < n; i++) x[i] /= sum;
}

sparta_status sp_builtin_Softmax(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_lines(cx, args, "Softmax", sp_line_softmax);
}
