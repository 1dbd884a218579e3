/* Constant: the tensor, number or list of numbers in the one attribute it has: value, value_int, value_ints,
 * value_float, value_floats. */
#include "builtin/elementwise.h"

sparta_status sp_builtin_Constant(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *out = &args->out[0];
    if (args->attrs->n != 1)
        return sp_fail(cx, SPARTA_E_FORMAT, "Constant: %d attributes; it has one", args->attrs->n);
    const sp_attr *a = &args->attrs->attr[0];
    int64_t n = a->n;
    switch (a->kind) {
    case SP_ATTR_TENSOR: return sp_builtin_convert(cx, a->tensor, out);
    case SP_ATTR_INT: sp_element_set_int(out->dtype, out->data, 0, a->i); return SPARTA_OK;
    case SP_ATTR_FLOAT: sp_element_set(out->dtype, out->data, 0, a->f); return SPARTA_OK;
    case SP_ATTR_INTS:
        for (int64_t i = 0; i < n; i++)
            sp_element_set_int(out->dtype, out->data, i * out->stride[0], a->ints[i]);
        return SPARTA_OK;
    case SP_ATTR_FLOATS:
        for (int64_t i = 0; i < n; i++)
            sp_element_set(out->dtype, out->data, i * out->stride[0], a->floats[i]);
        return SPARTA_OK;
    default: return sp_fail(cx, SPARTA_E_UNSUPPORTED, "Constant: attribute %s is not supported", a->name);
    }
}
