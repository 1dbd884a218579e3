/* ReduceL1: the sum of |x| over the reduced dims, in double; integers wrap; 0 over nothing. */
#include "builtin/reduce.h"
#include <math.h>

static double real(double a, double x)
{
    return a + fabs(x);
}

static int64_t integer(int64_t a, int64_t x)
{
    return (int64_t)((uint64_t)a + (x < 0 ? -(uint64_t)x : (uint64_t)x));
}

static uint64_t natural(uint64_t a, uint64_t x)
{
    return a + x;
}

static int64_t zero(sparta_dtype dtype)
{
    (void)dtype;
    return 0;
}

sparta_status sp_builtin_ReduceL1(sparta_ctx *cx, const sp_op_args *args)
{
    sp_reduction r = {
        .op = "ReduceL1", .f = {real, integer, natural}, .real_start = 0, .integer_start = zero};
    return sp_builtin_reduce(cx, args, &r);
}
