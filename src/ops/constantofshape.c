/* ConstantOfShape: the dims that the input holds, in the type of attribute value (f32 without it). */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_ConstantOfShape(sparta_graph *g, sparta_node *n)
{
    sparta_list shape;
    sparta_dims dims = {.rank = 0};
    const sparta_attr *value = sparta_attr_find(&n->attrs, "value");
    if (value && sparta_tensor_elements(value->tensor) != 1)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "value has %lld elements; it must be one",
                               (long long)sparta_tensor_elements(value->tensor));
    SPARTA_TRY(sparta_ops_list(g, n, 0, "the shape", &shape));
    for (int i = 0; i < shape.n; i++) SPARTA_TRY(sparta_ops_append(g, n, &dims, shape.x[i]));
    sparta_ops_set(n, 0, value ? value->tensor->dtype : SPARTA_F32, &dims);
    return SPARTA_OK;
}

const sparta_flow sparta_flow_ConstantOfShape = {
    SPARTA_OPAQUE, "folded where its shape is known, else opaque", "any", "a shape computed from data", NULL,
    NULL};
