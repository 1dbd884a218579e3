/* ConstantOfShape: every element is the one of attribute value (f32 0 without it); the input says the dims.
 */
#include "builtin/elementwise.h"

sparta_status sp_builtin_ConstantOfShape(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *out = &args->out[0];
    const sp_attr *value = sp_attr_find(args->attrs, "value");
    float zero = 0;
    sparta_tensor one =
        value && value->tensor ? *value->tensor : sparta_tensor_view(SPARTA_F32, 0, NULL, &zero);
    one.rank = 0; /* it comes as a list of one */
    return sp_builtin_convert(cx, &one, out);
}
