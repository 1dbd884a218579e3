/* Sub: c = a - b, broadcasting. Integers wrap. */
#include "builtin/elementwise.h"

static double real(double a, double b)
{
    return a - b;
}

static int64_t integer(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

sparta_status sp_builtin_Sub(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_binary(cx, args, &(sp_binary){.real = real, .integer = integer});
}
