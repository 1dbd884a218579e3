/* IsInf: y = true where x is an infinity; attributes detect_negative and detect_positive (both 1) choose
 * which. */
#include "builtin/elementwise.h"
#include <math.h>

static double either(double x)
{
    return isinf(x) != 0;
}

static double positive(double x)
{
    return isinf(x) && x > 0;
}

static double negative(double x)
{
    return isinf(x) && x < 0;
}

static double neither(double x)
{
    (void)x;
    return 0;
}

sparta_status sp_builtin_IsInf(sparta_ctx *cx, const sp_op_args *args)
{
    bool below = sp_attr_int(args->attrs, "detect_negative", 1),
         above = sp_attr_int(args->attrs, "detect_positive", 1);
    sp_unary f = {.real = below && above ? either : below ? negative : above ? positive : neither};
    return sp_builtin_unary(cx, args, &f);
}
