/* Constant: type and dims of the one attribute. */
#include "ops/flow.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    if (n->attrs.n != 1)
        return sp_ops_fail(g, n, SPARTA_E_FORMAT, "%d attributes; it has one, its value", n->attrs.n);
    const sp_attr *a = &n->attrs.attr[0];
    sp_dims dims = {.rank = 0};
    if (a->kind == SP_ATTR_TENSOR)
        for (int i = 0; i < a->tensor->rank; i++)
            SP_TRY(sp_ops_append(g, n, &dims, sp_expr_const(g->arena, a->tensor->dim[i])));
    else if (a->kind == SP_ATTR_INTS || a->kind == SP_ATTR_FLOATS)
        SP_TRY(sp_ops_append(g, n, &dims, sp_expr_const(g->arena, a->n)));
    else if (a->kind == SP_ATTR_STRING)
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "texts are not supported");
    bool integer = a->kind == SP_ATTR_INT || a->kind == SP_ATTR_INTS;
    return sp_ops_done(n,
                       a->kind == SP_ATTR_TENSOR ? a->tensor->dtype
                       : integer                 ? SPARTA_I64
                                                 : SPARTA_F32,
                       &dims);
}

SP_RULE(Constant, shape, SP_ALL, SP_OPAQUE, NULL, NULL, "folded: its value is a constant", "texts");
