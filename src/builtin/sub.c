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

sparta_status sparta_builtin_Sub(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_binary(cx, args, &(sparta_binary){.real = real, .integer = integer});
}
