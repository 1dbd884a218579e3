/* Erf: y = erf(x), the error function. Integers are cut off after it: only 0 and +-1 remain. */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return erf(x);
}

static int64_t integer(int64_t x)
{
    return (int64_t)erf((double)x);
}

sparta_status sp_builtin_Erf(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_unary(cx, args, &(sp_unary){.real = real, .integer = integer});
}
