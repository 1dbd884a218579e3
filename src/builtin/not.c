/* Not: y = !x of bools. */
#include "builtin/elementwise.h"

static int64_t integer(int64_t x)
{
    return !x;
}

sparta_status sp_builtin_Not(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_unary(cx, args, &(sp_unary){.integer = integer});
}
