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

sparta_status sparta_builtin_Relu(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_unary(cx, args, &(sparta_unary){.real = real, .integer = integer});
}
