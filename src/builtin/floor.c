/* Floor: y = the largest whole number not above x. */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return floor(x);
}

sparta_status sp_builtin_Floor(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_unary(cx, args, &(sp_unary){.real = real});
}
