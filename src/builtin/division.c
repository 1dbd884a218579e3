/* Div and Mod, broadcasting. A zero among integer divisors is an error: the hardware would trap. So would the smallest integer by -1,
 * whose quotient does not fit and wraps.
 *
 *     Div   integers truncate towards zero
 *     Mod   the remainder has the sign of the divisor, as in Python; with attribute fmod=1 that of the dividend, as in C, and only so
 *           for floats
 */
#include "builtin/elementwise.h"
#include <math.h>

static sparta_status divide(sparta_ctx *cx, const sp_op_args *args, const char *op, const sp_binary *f)
{
    const sparta_tensor *by = &args->in[1];
    for (sp_cursor w = sp_cursor_begin(by->rank, by->dim, 1, &by); !sp_dtype_is_float(by->dtype) && w.more;
         sp_cursor_next(&w))
        if (sp_element_get_int(by->dtype, by->data, w.at[0]) == 0)
            return sp_fail(cx, SPARTA_E_RANGE,
                           "%s: a divisor of type %s is zero; integers cannot be divided by it", op,
                           sparta_dtype_name(by->dtype));
    return sp_builtin_binary(cx, args, f);
}

static double real_quotient(double a, double b)
{
    return a / b;
}

static int64_t quotient(int64_t a, int64_t b)
{
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static uint64_t natural_quotient(uint64_t a, uint64_t b)
{
    return a / b;
}

SP_REFERENCE(Div, divide(cx, args, "Div", &(sp_binary){real_quotient, quotient, natural_quotient}))

static int64_t truncated(int64_t a, int64_t b)
{
    return b == -1 ? 0 : a % b;
}

static int64_t floored(int64_t a, int64_t b)
{
    int64_t r = truncated(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static uint64_t natural_rest(uint64_t a, uint64_t b)
{
    return a % b;
}

sparta_status sp_builtin_Mod(sparta_ctx *cx, const sp_op_args *args)
{
    const bool c_like = sp_attr_int(args->attrs, "fmod", 0);
    return divide(cx, args, "Mod",
                  &(sp_binary){c_like ? fmod : NULL, c_like ? truncated : floored, natural_rest});
}
