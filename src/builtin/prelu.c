/* PRelu: y = x, or slope x where x < 0; the slope broadcasts to x. */
#include "builtin/elementwise.h"

static double real(double x, double slope)
{
    return x < 0 ? slope * x : x;
}

static int64_t integer(int64_t x, int64_t slope)
{
    return x < 0 ? (int64_t)((uint64_t)slope * (uint64_t)x) : x;
}

static uint64_t natural(uint64_t x, uint64_t slope)
{
    (void)slope;
    return x;
}

sparta_status sp_builtin_PRelu(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_binary(cx, args, &(sp_binary){.real = real, .integer = integer, .natural = natural});
}
