/* Mish: y = x tanh(ln(1 + e^x)). */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return x * tanh(log1p(exp(-fabs(x))) + (x < 0 ? 0 : x));
}

sparta_status sp_builtin_Mish(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_unary(cx, args, &(sp_unary){.real = real});
}
