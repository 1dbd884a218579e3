/* Constant: type and dims of the one attribute. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sparta_shape_Constant(sparta_graph *g, sparta_node *n)
{
    if (n->attrs.n != 1)
        return sparta_ops_fail(g, n, SPARTA_E_FORMAT, "%d attributes; it has one, its value", n->attrs.n);
    const sparta_attr *a = &n->attrs.attr[0];
    sparta_dims dims = {.rank = 0};
    if (a->kind == SPARTA_ATTR_TENSOR)
        for (int i = 0; i < a->tensor->rank; i++)
            SPARTA_TRY(sparta_ops_append(g, n, &dims, sparta_expr_const(g->arena, a->tensor->dim[i])));
    else if (a->kind == SPARTA_ATTR_INTS || a->kind == SPARTA_ATTR_FLOATS)
        SPARTA_TRY(sparta_ops_append(g, n, &dims, sparta_expr_const(g->arena, a->n)));
    else if (a->kind == SPARTA_ATTR_STRING)
        return sparta_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "texts are not supported");
    bool integer = a->kind == SPARTA_ATTR_INT || a->kind == SPARTA_ATTR_INTS;
    sparta_ops_set(n, 0,
                   a->kind == SPARTA_ATTR_TENSOR ? a->tensor->dtype
                   : integer                     ? SPARTA_I64
                                                 : SPARTA_F32,
                   &dims);
    return SPARTA_OK;
}

const sparta_flow sparta_flow_Constant = {
    SPARTA_OPAQUE, "folded: its value is a constant", "any", "texts", NULL, NULL};
