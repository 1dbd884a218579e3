/* Min: the smallest of the inputs, element by element, broadcasting. A NaN anywhere gives NaN, as in NumPy.
 */
#include "builtin/elementwise.h"

static double real(double a, double b)
{
    return a != a || a < b ? a : b; /* a != a: NaN */
}

static int64_t integer(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static uint64_t natural(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

sparta_status sp_builtin_Min(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_variadic(cx, args, &(sp_binary){.real = real, .integer = integer, .natural = natural});
}
