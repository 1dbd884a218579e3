/* Pow: c = a ^ b, broadcasting; the result has the type of a, b may have another. Integers to integer powers
 * are exact up to wrapping; a negative power of an integer is cut off to 0, except of 1 and -1, and of 0 it
 * is an error. */
#include "builtin/elementwise.h"
#include <math.h>

static uint64_t power(uint64_t base, uint64_t exponent)
{
    uint64_t result = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1) result *= base;
    return result;
}

static sparta_status integer_power(sparta_ctx *cx, int64_t a, int64_t b, bool b_signed, int64_t *out)
{
    if (!b_signed || b >= 0) {
        *out = (int64_t)power((uint64_t)a, (uint64_t)b);
        return SPARTA_OK;
    }
    if (a == 0)
        return sp_fail(cx, SPARTA_E_RANGE, "Pow: the integer 0 to the power %lld has no value", (long long)b);
    *out = a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    return SPARTA_OK;
}

sparta_status sp_builtin_Pow(sparta_ctx *cx, const sp_op_args *args)
{
    sparta_tensor a, b, out = args->out[0];
    SP_TRY(sp_tensor_broadcast(cx, &args->in[0], out.rank, out.dim, &a));
    SP_TRY(sp_tensor_broadcast(cx, &args->in[1], out.rank, out.dim, &b));
    bool real = sp_dtype_is_float(a.dtype) || sp_dtype_is_float(b.dtype);
    const sparta_tensor *all[] = {&a, &b, &out};
    for (sp_cursor w = sp_cursor_begin(out.rank, out.dim, 3, all); w.more; sp_cursor_next(&w)) {
        if (real) {
            double x = sp_element_get(a.dtype, a.data, w.at[0]), y = sp_element_get(b.dtype, b.data, w.at[1]);
            sp_element_set(out.dtype, out.data, w.at[2], pow(x, y));
            continue;
        }
        int64_t x = sp_element_get_int(a.dtype, a.data, w.at[0]),
                y = sp_element_get_int(b.dtype, b.data, w.at[1]), z = 0;
        SP_TRY(integer_power(cx, x, y, sp_dtype_is_signed(b.dtype), &z));
        sp_element_set_int(out.dtype, out.data, w.at[2], z);
    }
    return SPARTA_OK;
}
