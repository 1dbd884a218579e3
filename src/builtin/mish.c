/* Mish: y = x tanh(ln(1 + e^x)). */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return x * tanh(log1p(exp(-fabs(x))) + (x < 0 ? 0 : x));
}

sparta_status sparta_builtin_Mish(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_unary(cx, args, &(sparta_unary){.real = real});
}
