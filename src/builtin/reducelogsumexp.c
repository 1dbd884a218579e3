/* ReduceLogSumExp: log of the sum of e^x over the reduced dims, in double; of integers it is cut off; -inf over nothing.
 * One more x is added without leaving the logarithm, so that nothing overflows: log(e^a + e^x) = a + log(1 + e^(x - a)), a >= x. */
#include "builtin/reduce.h"
#include <math.h>

static double real(double a, double x)
{
    if (a != a || x != x) return NAN;
    double large = a > x ? a : x, small = a > x ? x : a;
    return isinf(large) ? large : large + log1p(exp(small - large));
}

sparta_status sp_builtin_ReduceLogSumExp(sparta_ctx *cx, const sp_op_args *args)
{
    sp_reduction r = {
        .op = "ReduceLogSumExp", .f = {.real = real}, .real_start = -INFINITY, .in_double = true};
    return sp_builtin_reduce(cx, args, &r);
}
