/* Transpose: the dims in the order of attribute perm, or reversed. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_Transpose(sparta_graph *g, sparta_node *n)
{
    const sparta_dims *x = &n->in[0]->dims;
    const sparta_attr *perm = sparta_attr_find(&n->attrs, "perm");
    sparta_dims dims = {.rank = x->rank};
    bool taken[SPARTA_RANK] = {false};
    if (perm && perm->n != x->rank)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "perm has %d axes and the input has rank %d", perm->n,
                               x->rank);
    for (int i = 0; i < x->rank; i++) {
        int from = x->rank - 1 - i;
        if (perm) SPARTA_TRY(sparta_ops_axis(g, n, perm->ints[i], x->rank, &from));
        if (taken[from]) return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "perm names axis %d twice", from);
        taken[from] = true;
        dims.dim[i] = x->dim[from];
    }
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sparta_ops_move(g, n, 1);
}

static sparta_status axes(sparta_axes *a)
{
    const sparta_attr *perm = sparta_attr_find(&a->n->attrs, "perm");
    int label[SPARTA_RANK], rank = a->n->in[0]->dims.rank;
    SPARTA_TRY(sparta_axes_labels(a, a->n->in[0], label));
    a->how = SPARTA_FLOW_MOVE;
    a->in[0].role = a->out[0].role = SPARTA_ARG;
    for (int i = 0; i < rank; i++) {
        int from = rank - 1 - i;
        if (perm) SPARTA_TRY(sparta_ops_axis(a->g, a->n, perm->ints[i], rank, &from));
        a->in[0].axis[i] = sparta_axis_of(label[i]);
        a->out[0].axis[i] = sparta_axis_of(label[from]);
    }
    return SPARTA_OK;
}

const sparta_flow sparta_flow_Transpose = {
    SPARTA_EXACT, "the same elements, axes in another order", "any", "", axes, NULL};
