/* Elu: y = x, or alpha (e^x - 1) where x < 0. */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x, const double *p)
{
    return x < 0 ? p[0] * expm1(x) : x;
}

sparta_status sparta_builtin_Elu(sparta_ctx *cx, const sparta_op_args *args)
{
    const double p[] = {sparta_attr_float(args->attrs, "alpha", 1)};
    return sparta_builtin_unary_with(cx, args, real, p);
}
