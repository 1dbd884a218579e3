/* ReduceMin: the smallest over the reduced dims; NaN when one is among them; inf or the highest integer over
 * nothing. */
#include "builtin/reduce.h"
#include <math.h>

static double real(double a, double x)
{
    return a != a || a < x ? a : x; /* a != a: NaN */
}

static int64_t integer(int64_t a, int64_t x)
{
    return a < x ? a : x;
}

static uint64_t natural(uint64_t a, uint64_t x)
{
    return a < x ? a : x;
}

sparta_status sp_builtin_ReduceMin(sparta_ctx *cx, const sp_op_args *args)
{
    sp_reduction r = {.op = "ReduceMin",
                      .f = {real, integer, natural},
                      .real_start = INFINITY,
                      .integer_start = sp_dtype_highest};
    return sp_builtin_reduce(cx, args, &r);
}
