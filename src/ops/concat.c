/* Concat: the sum of the dims along attribute axis; the other dims agree. */
#include "ops/ints.h"

sparta_status sparta_shape_Concat(sparta_graph *g, sparta_node *n)
{
    sparta_dims dims = n->in[0]->dims;
    int axis;
    if (!sparta_attr_find(&n->attrs, "axis"))
        return sparta_ops_fail(g, n, SPARTA_E_FORMAT, "attribute axis is missing");
    SPARTA_TRY(sparta_ops_axis(g, n, sparta_attr_int(&n->attrs, "axis", 0), dims.rank, &axis));
    for (int i = 1; i < n->n_in; i++) {
        const sparta_dims *x = &n->in[i]->dims;
        SPARTA_TRY(sparta_ops_same_type(g, n, 0, i));
        SPARTA_TRY(sparta_ops_rank(g, n, i, dims.rank, dims.rank));
        for (int k = 0; k < dims.rank; k++)
            if (k != axis)
                SPARTA_TRY(sparta_ops_agree(g, n, "a dim that is not the axis", dims.dim[k], x->dim[k]));
        dims.dim[axis] = sparta_expr_add(g->arena, dims.dim[axis], x->dim[axis]);
        SPARTA_NEED(g->cx, dims.dim[axis]);
    }
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sparta_ops_move(g, n, ~0u);
}
