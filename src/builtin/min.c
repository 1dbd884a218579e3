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

sparta_status sparta_builtin_Min(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_variadic(cx, args,
                                   &(sparta_binary){.real = real, .integer = integer, .natural = natural});
}
