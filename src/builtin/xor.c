/* Xor: c = (a != b) of bools, broadcasting. */
#include "builtin/elementwise.h"

static int64_t integer(int64_t a, int64_t b)
{
    return !a != !b;
}

sparta_status sparta_builtin_Xor(sparta_ctx *cx, const sparta_op_args *args)
{
    return sparta_builtin_binary(cx, args, &(sparta_binary){.integer = integer});
}
