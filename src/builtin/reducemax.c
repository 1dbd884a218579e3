/* ReduceMax: the largest over the reduced dims; NaN when one is among them; -inf or the lowest integer over
 * nothing. */
#include "builtin/reduce.h"
#include <math.h>

static double real(double a, double x)
{
    return a != a || a > x ? a : x; /* a != a: NaN */
}

static int64_t integer(int64_t a, int64_t x)
{
    return a > x ? a : x;
}

static uint64_t natural(uint64_t a, uint64_t x)
{
    return a > x ? a : x;
}

sparta_status sparta_builtin_ReduceMax(sparta_ctx *cx, const sparta_op_args *args)
{
    sparta_reduction r = {.op = "ReduceMax",
                          .f = {real, integer, natural},
                          .real_start = -INFINITY,
                          .integer_start = sparta_dtype_lowest};
    return sparta_builtin_reduce(cx, args, &r);
}
