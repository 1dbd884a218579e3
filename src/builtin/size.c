/* Size: the number of elements of x, a scalar i64. */
#include "builtin/builtin.h"

sparta_status sp_builtin_Size(sparta_ctx *cx, const sp_op_args *args)
{
    (void)cx;
    sp_element_set_int(SPARTA_I64, args->out[0].data, 0, sparta_tensor_elements(&args->in[0]));
    return SPARTA_OK;
}
