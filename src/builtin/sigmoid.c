/* Sigmoid: y = 1 / (1 + e^-x). exp(-x) overflows to infinity for very negative x, which gives the right 0. */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return 1 / (1 + exp(-x));
}

sparta_status sp_builtin_Sigmoid(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_unary(cx, args, &(sp_unary){.real = real});
}
