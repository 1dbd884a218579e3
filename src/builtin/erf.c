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

sparta_status sparta_builtin_Erf(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_unary(cx, args, &(sparta_unary){.real = real, .integer = integer});
}
