/* Tanh: y = tanh(x). */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return tanh(x);
}

sparta_status sparta_builtin_Tanh(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_unary(cx, args, &(sparta_unary){.real = real});
}
