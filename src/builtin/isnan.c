/* IsNaN: y = true where x is not a number. */
#include "builtin/elementwise.h"

static double real(double x)
{
    return x != x;
}

sparta_status sparta_builtin_IsNaN(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_unary(cx, args, &(sparta_unary){.real = real});
}
