/* Exp: y = e^x. */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return exp(x);
}

sparta_status sp_builtin_Exp(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_unary(cx, args, &(sp_unary){.real = real});
}
