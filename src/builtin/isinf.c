/* IsNaN and IsInf: true where x is not a number, or an infinity, of which attributes detect_negative and detect_positive (both 1) choose. */
#include "builtin/elementwise.h"
#include <math.h>

static double is_nan(double x)
{
    return x != x;
}

static double is_inf(double x, const double *detect)
{
    return isinf(x) && detect[x > 0];
}

SP_REFERENCE(IsNaN, sp_builtin_unary(cx, args, &(sp_unary){.real = is_nan}))

sparta_status sp_builtin_IsInf(sparta_ctx *cx, const sp_op_args *args)
{
    const double detect[2] = {sp_attr_int(args->attrs, "detect_negative", 1) != 0,
                              sp_attr_int(args->attrs, "detect_positive", 1) != 0};
    return sp_builtin_unary_with(cx, args, is_inf, detect);
}
