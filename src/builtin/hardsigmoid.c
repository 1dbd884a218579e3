/* HardSigmoid: y = max(0, min(1, alpha x + beta)); NaN stays NaN. */
#include "builtin/elementwise.h"

static double real(double x, const double *p)
{
    double y = p[0] * x + p[1];
    return y < 0 ? 0 : y > 1 ? 1 : y;
}

sparta_status sparta_builtin_HardSigmoid(sparta_ctx *cx, const sparta_op_args *args)
{
    const double p[] = {sparta_attr_float(args->attrs, "alpha", 0.2f),
                        sparta_attr_float(args->attrs, "beta", 0.5f)};
    return sparta_builtin_unary_with(cx, args, real, p);
}
