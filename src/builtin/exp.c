/* Exp: y = e^x. */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return exp(x);
}

sparta_status sparta_builtin_Exp(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_unary(cx, args, &(sparta_unary){.real = real});
}
