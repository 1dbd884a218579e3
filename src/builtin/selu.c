/* Selu: y = gamma x, or gamma alpha (e^x - 1) where x < 0. */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x, const double *p)
{
    return p[1] * (x < 0 ? p[0] * expm1(x) : x);
}

sparta_status sp_builtin_Selu(sparta_ctx *cx, const sp_op_args *args)
{
    const double p[] = {sp_attr_float(args->attrs, "alpha", 1.67326319217681884765625f),
                        sp_attr_float(args->attrs, "gamma", 1.05070102214813232421875f)};
    return sp_builtin_unary_with(cx, args, real, p);
}
