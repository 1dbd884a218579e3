/* Sqrt: y = sqrt(x), NaN below zero. */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return sqrt(x);
}

sparta_status sparta_builtin_Sqrt(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_unary(cx, args, &(sparta_unary){.real = real});
}
