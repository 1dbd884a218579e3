/* Transpose: the dims in the order of attribute perm, or reversed. */
#include "ops/ints.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_dims *x = &n->in[0]->dims;
    const sp_attr *perm = sp_attr_find(&n->attrs, "perm");
    sp_dims dims = {.rank = x->rank};
    bool taken[SPARTA_RANK] = {false};
    if (perm && perm->n != x->rank)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "perm has %d axes and the input has rank %d", perm->n,
                           x->rank);
    for (int i = 0; i < x->rank; i++) {
        int from = x->rank - 1 - i;
        if (perm) SP_TRY(sp_ops_axis(g, n, perm->ints[i], x->rank, &from));
        if (taken[from]) return sp_ops_fail(g, n, SPARTA_E_SHAPE, "perm names axis %d twice", from);
        taken[from] = true;
        dims.dim[i] = x->dim[from];
    }
    sp_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sp_ops_move(g, n, 1);
}

static sparta_status axes(sp_axes *a)
{
    const sp_attr *perm = sp_attr_find(&a->n->attrs, "perm");
    int label[SPARTA_RANK], rank = a->n->in[0]->dims.rank;
    SP_TRY(sp_axes_labels(a, a->n->in[0], label));
    a->how = SP_FLOW_MOVE;
    a->in[0].role = a->out[0].role = SP_ARG;
    for (int i = 0; i < rank; i++) {
        int from = rank - 1 - i;
        if (perm) SP_TRY(sp_ops_axis(a->g, a->n, perm->ints[i], rank, &from));
        a->in[0].axis[i] = sp_axis_of(label[i]);
        a->out[0].axis[i] = sp_axis_of(label[from]);
    }
    return SPARTA_OK;
}

SP_RULE(Transpose, shape, SP_ALL, SP_EXACT, axes, NULL, "the same elements, axes in another order", "");
