/* LogSoftmax: y = x - max - log of the sum of e^(x - max) along attribute axis (-1). */
#include "builtin/line.h"
#include <math.h>

static void log_softmax(double *x, int64_t n)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    for (int64_t i = 0; i < n; i++) sum += exp(x[i] - max);
    for (int64_t i = 0; i < n; i++) x[i] = x[i] - max - log(sum);
}

sparta_status sp_builtin_LogSoftmax(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_lines(cx, args, "LogSoftmax", log_softmax);
}
