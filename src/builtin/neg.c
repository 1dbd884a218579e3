/* Neg: y = -x. The smallest integer is its own negative. */
#include "builtin/elementwise.h"

static double real(double x)
{
    return -x;
}

static int64_t integer(int64_t x)
{
    return (int64_t)(0 - (uint64_t)x);
}

sparta_status sp_builtin_Neg(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_unary(cx, args, &(sp_unary){.real = real, .integer = integer});
}
