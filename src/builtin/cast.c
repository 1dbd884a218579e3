/* Cast: y = x in the type of attribute `to`. Floats are cut off towards zero on the way to integers, integers
 * wrap, anything but zero is true. */
#include "builtin/elementwise.h"

sparta_status sp_builtin_Cast(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_convert(cx, &args->in[0], &args->out[0]);
}
