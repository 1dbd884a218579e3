/* Round: y = the whole number nearest to x, the even one of two. */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return nearbyint(x); /* the rounding mode is to nearest even */
}

sparta_status sp_builtin_Round(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_unary(cx, args, &(sp_unary){.real = real});
}
