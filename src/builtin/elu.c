/* Elu: y = x, or alpha (e^x - 1) where x < 0. */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x, const double *p)
{
    return x < 0 ? p[0] * expm1(x) : x;
}

sparta_status sp_builtin_Elu(sparta_ctx *cx, const sp_op_args *args)
{
    const double p[] = {sp_attr_float(args->attrs, "alpha", 1)};
    return sp_builtin_unary_with(cx, args, real, p);
}
