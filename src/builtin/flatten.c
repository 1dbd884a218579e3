/* Flatten: the dims before attribute axis (1) become one, the others another. The elements stay in order. */
#include "builtin/elementwise.h"

sparta_status sp_builtin_Flatten(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_copy_flat(cx, &args->in[0], &args->out[0]);
}
