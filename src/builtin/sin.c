/* Sin: y = sin(x), x in radians. */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return sin(x);
}

sparta_status sp_builtin_Sin(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_unary(cx, args, &(sp_unary){.real = real});
}
