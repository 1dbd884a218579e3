/* LeakyRelu: y = x, or alpha x where x < 0. */
#include "builtin/elementwise.h"

static double real(double x, const double *p)
{
    return x < 0 ? p[0] * x : x;
}

sparta_status sp_builtin_LeakyRelu(sparta_ctx *cx, const sp_op_args *args)
{
    const double p[] = {sp_attr_float(args->attrs, "alpha", 0.01f)};
    return sp_builtin_unary_with(cx, args, real, p);
}
