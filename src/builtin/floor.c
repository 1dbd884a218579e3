/* Floor: y = the largest whole number not above x. */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return floor(x);
}

sparta_status sparta_builtin_Floor(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_unary(cx, args, &(sparta_unary){.real = real});
}
