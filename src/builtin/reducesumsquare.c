/* ReduceSumSquare: the sum of x^2 over the reduced dims, in double; integers wrap; 0 over nothing. */
#include "builtin/reduce.h"

static double real(double a, double x)
{
    return a + x * x;
}

static int64_t integer(int64_t a, int64_t x)
{
    return (int64_t)((uint64_t)a + (uint64_t)x * (uint64_t)x);
}

static int64_t zero(sparta_dtype dtype)
{
    (void)dtype;
    return 0;
}

sparta_status sp_builtin_ReduceSumSquare(sparta_ctx *cx, const sp_op_args *args)
{
    sp_reduction r = {
        .op = "ReduceSumSquare", .f = {real, integer, NULL}, .real_start = 0, .integer_start = zero};
    return sp_builtin_reduce(cx, args, &r);
}
