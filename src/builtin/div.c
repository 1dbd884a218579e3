/* Div: c = a / b, broadcasting. Integers truncate towards zero; a zero among integer divisors is an error,
 * and the one quotient that does not fit (the smallest integer by -1) wraps. */
#include "builtin/elementwise.h"

static double real(double a, double b)
{
    return a / b;
}

static int64_t integer(int64_t a, int64_t b)
{
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static uint64_t natural(uint64_t a, uint64_t b)
{
    return a / b;
}

sparta_status sp_builtin_Div(sparta_ctx *cx, const sp_op_args *args)
{
    SP_TRY(sp_builtin_no_zero(cx, "Div", &args->in[1]));
    return sp_builtin_binary(cx, args, &(sp_binary){.real = real, .integer = integer, .natural = natural});
}
