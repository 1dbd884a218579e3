/* Softsign: y = x / (1 + |x|). */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return x / (1 + fabs(x));
}

sparta_status sparta_builtin_Softsign(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_unary(cx, args, &(sparta_unary){.real = real});
}
