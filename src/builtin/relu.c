/* Relu: y = max(x, 0); NaN stays NaN. */
#include "builtin/elementwise.h"

static double real(double x)
{
    return x < 0 ? 0 : x;
}

static int64_t integer(int64_t x)
{
    return x < 0 ? 0 : x;
}

sparta_status sp_builtin_Relu(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_unary(cx, args, &(sp_unary){.real = real, .integer = integer});
}
