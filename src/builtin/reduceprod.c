/* ReduceProd: the product over the reduced dims, in double; integers wrap; 1 over nothing. */
#include "builtin/reduce.h"

static double real(double a, double x)
{
    return a * x;
}

static int64_t integer(int64_t a, int64_t x)
{
    return (int64_t)((uint64_t)a * (uint64_t)x);
}

static int64_t one(sparta_dtype dtype)
{
    (void)dtype;
    return 1;
}

sparta_status sp_builtin_ReduceProd(sparta_ctx *cx, const sp_op_args *args)
{
    sp_reduction r = {.op = "ReduceProd", .f = {real, integer, NULL}, .real_start = 1, .integer_start = one};
    return sp_builtin_reduce(cx, args, &r);
}
