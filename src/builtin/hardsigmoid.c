/* HardSigmoid: y = max(0, min(1, alpha x + beta)); NaN stays NaN. */
#include "builtin/elementwise.h"

static double real(double x, const double *p)
{
    double y = p[0] * x + p[1];
    return y < 0 ? 0 : y > 1 ? 1 : y;
}

sparta_status sp_builtin_HardSigmoid(sparta_ctx *cx, const sp_op_args *args)
{
    const double p[] = {sp_attr_float(args->attrs, "alpha", 0.2f), sp_attr_float(args->attrs, "beta", 0.5f)};
    return sp_builtin_unary_with(cx, args, real, p);
}
