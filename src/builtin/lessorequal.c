/* LessOrEqual: c = (a <= b), broadcasting. False when either is NaN. */
#include "builtin/elementwise.h"

static double real(double a, double b)
{
    return a <= b;
}

static int64_t integer(int64_t a, int64_t b)
{
    return a <= b;
}

static uint64_t natural(uint64_t a, uint64_t b)
{
    return a <= b;
}

sparta_status sp_builtin_LessOrEqual(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_binary(cx, args, &(sp_binary){.real = real, .integer = integer, .natural = natural});
}
