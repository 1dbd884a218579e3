/* Softsign: y = x / (1 + |x|). */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return x / (1 + fabs(x));
}

sparta_status sp_builtin_Softsign(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_unary(cx, args, &(sp_unary){.real = real});
}
