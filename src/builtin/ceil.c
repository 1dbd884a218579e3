/* Ceil: y = the smallest whole number not below x. */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return ceil(x);
}

sparta_status sparta_builtin_Ceil(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_unary(cx, args, &(sparta_unary){.real = real});
}
