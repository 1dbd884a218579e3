/* Not: y = !x of bools. */
#include "builtin/elementwise.h"

static int64_t integer(int64_t x)
{
    return !x;
}

sparta_status sparta_builtin_Not(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_unary(cx, args, &(sparta_unary){.integer = integer});
}
