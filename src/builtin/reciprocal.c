/* Reciprocal: y = 1 / x. */
#include "builtin/elementwise.h"

static double real(double x)
{
    return 1 / x;
}

sparta_status sp_builtin_Reciprocal(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_unary(cx, args, &(sp_unary){.real = real});
}
