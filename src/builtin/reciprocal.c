/* Reciprocal: y = 1 / x. */
#include "builtin/elementwise.h"

static double real(double x)
{
    return 1 / x;
}

sparta_status sparta_builtin_Reciprocal(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_unary(cx, args, &(sparta_unary){.real = real});
}
