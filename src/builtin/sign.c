/* Sign: y = -1, 0 or 1 as x is below, at or above zero; NaN stays NaN. */
#include "builtin/elementwise.h"

static double real(double x)
{
    if (x != x) return x; /* NaN */
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}

static int64_t integer(int64_t x)
{
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}

/* A u64 above 2^63 looks negative. */
static int64_t natural(int64_t x)
{
    return x != 0;
}

sparta_status sp_builtin_Sign(sparta_ctx *cx, const sp_op_args *args)
{
    bool is_signed = sp_dtype_is_signed(args->in[0].dtype);
    return sp_builtin_unary(cx, args, &(sp_unary){.real = real, .integer = is_signed ? integer : natural});
}
