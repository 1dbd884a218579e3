/* HardSwish: y = x max(0, min(1, x/6 + 1/2)); NaN stays NaN. */
#include "builtin/elementwise.h"

static double real(double x)
{
    double gate = x / 6 + 0.5;
    return x * (gate < 0 ? 0 : gate > 1 ? 1 : gate);
}

sparta_status sparta_builtin_HardSwish(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_unary(cx, args, &(sparta_unary){.real = real});
}
