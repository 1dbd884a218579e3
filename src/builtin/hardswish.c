/* HardSwish: y = x max(0, min(1, x/6 + 1/2)); NaN stays NaN. */
#include "builtin/elementwise.h"

static double real(double x)
{
    double gate = x / 6 + 0.5;
    return x * (gate < 0 ? 0 : gate > 1 ? 1 : gate);
}

sparta_status sp_builtin_HardSwish(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_unary(cx, args, &(sp_unary){.real = real});
}
