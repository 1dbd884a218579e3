/* Abs: y = |x|. The smallest integer is its own absolute value; unsigned types pass. */
#include "builtin/elementwise.h"
#include <math.h>

static double real(double x)
{
    return fabs(x);
}

static int64_t integer(int64_t x)
{
    return x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
}

static int64_t itself(int64_t x)
{
    return x; /* u64 above 2^63 looks negative as int64 */
}

sparta_status sp_builtin_Abs(sparta_ctx *cx, const sp_op_args *args)
{
    bool is_signed = sp_dtype_is_signed(args->in[0].dtype);
    return sp_builtin_unary(cx, args, &(sp_unary){.real = real, .integer = is_signed ? integer : itself});
}
