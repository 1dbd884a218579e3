/* ReduceLogSum: the logarithm of the sum over the reduced dims, in double; of integers it is cut off; -inf over nothing. */
#include "builtin/reduce.h"
#include <math.h>

static double real(double a, double x)
{
    return a + x;
}

static double logarithm(double sum)
{
    return log(sum);
}

sparta_status sp_builtin_ReduceLogSum(sparta_ctx *cx, const sp_op_args *args)
{
    sp_reduction r = {
        .op = "ReduceLogSum", .f = {.real = real}, .real_start = 0, .in_double = true, .finish = logarithm};
    return sp_builtin_reduce(cx, args, &r);
}
