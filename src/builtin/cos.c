/* Cos: y = cos(x), x in radians. */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return cos(x);
}

sparta_status sparta_builtin_Cos(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_unary(cx, args, &(sparta_unary){.real = real});
}
