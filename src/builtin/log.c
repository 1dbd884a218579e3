/* Log: y = ln x; -inf at zero, NaN below. */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return log(x);
}

sparta_status sp_builtin_Log(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_unary(cx, args, &(sp_unary){.real = real});
}
