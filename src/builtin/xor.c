/* Xor: c = (a != b) of bools, broadcasting. */
#include "builtin/elementwise.h"

static int64_t integer(int64_t a, int64_t b)
{
    return !a != !b;
}

sparta_status sp_builtin_Xor(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_binary(cx, args, &(sp_binary){.integer = integer});
}
