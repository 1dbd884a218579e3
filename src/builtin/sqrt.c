/* Sqrt: y = sqrt(x), NaN below zero. */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return sqrt(x);
}

sparta_status sp_builtin_Sqrt(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_unary(cx, args, &(sp_unary){.real = real});
}
