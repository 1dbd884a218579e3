/* IsNaN: y = true where x is not a number. */
#include "builtin/elementwise.h"

static double real(double x)
{
    return x != x;
}

sparta_status sp_builtin_IsNaN(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_unary(cx, args, &(sp_unary){.real = real});
}
