/* Log: y = ln x; -inf at zero, NaN below. */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return log(x);
}

sparta_status sparta_builtin_Log(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_unary(cx, args, &(sparta_unary){.real = real});
}
