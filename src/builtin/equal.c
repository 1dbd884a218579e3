/* Equal: c = (a == b), broadcasting. NaN equals nothing. */
#include "builtin/elementwise.h"

static double real(double a, double b)
{
    return a == b;
}

static int64_t integer(int64_t a, int64_t b)
{
    return a == b;
}

sparta_status sparta_builtin_Equal(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_binary(cx, args, &(sparta_binary){.real = real, .integer = integer});
}
