/* ReduceL2: the square root of the sum of x^2 over the reduced dims, in double; of integers it is cut off; 0 over nothing. */
#include "builtin/reduce.h"
#include <math.h>

static double real(double a, double x)
{
    return a + x * x;
}

static double root(double sum)
{
    return sqrt(sum);
}

sparta_status sp_builtin_ReduceL2(sparta_ctx *cx, const sp_op_args *args)
{
    sp_reduction r = {
        .op = "ReduceL2", .f = {.real = real}, .real_start = 0, .in_double = true, .finish = root};
    return sp_builtin_reduce(cx, args, &r);
}
