/* Mod: the remainder of a / b, broadcasting. It has the sign of the divisor, as in Python; with attribute
 * fmod=1 that of the dividend, as in C, and only so for floats. A zero among integer divisors is an error. */
#include "builtin/elementwise.h"
#include <math.h>

static int64_t floored(int64_t a, int64_t b)
{
    if (b == -1) return 0; /* the smallest integer % -1 traps */
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t truncated(int64_t a, int64_t b)
{
    return b == -1 ? 0 : a % b;
}

static uint64_t natural(uint64_t a, uint64_t b)
{
    return a % b;
}

sparta_status sp_builtin_Mod(sparta_ctx *cx, const sp_op_args *args)
{
    bool c_like = sp_attr_int(args->attrs, "fmod", 0);
    SP_TRY(sp_builtin_no_zero(cx, "Mod", &args->in[1]));
    sp_binary f = {.real = c_like ? fmod : NULL, .integer = c_like ? truncated : floored, .natural = natural};
    return sp_builtin_binary(cx, args, &f);
}
