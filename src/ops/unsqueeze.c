/* Unsqueeze: dims of 1 at the places of the result that the second input names. */
#include "ops/ints.h"

sparta_status sparta_shape_Unsqueeze(sparta_graph *g, sparta_node *n)
{
    const sparta_dims *x = &n->in[0]->dims;
    int64_t axes[SPARTA_RANK];
    bool set[SPARTA_RANK];
    int count, from = 0;
    SPARTA_TRY(sparta_ops_constants(g, n, 1, "axes", SPARTA_RANK, axes, &count));
    if (count + x->rank > SPARTA_RANK)
        return sparta_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "the result has %d dims; at most %d",
                               count + x->rank, SPARTA_RANK);
    SPARTA_TRY(sparta_ops_axes(g, n, 1, x->rank + count, set, &count));
    sparta_dims dims = {.rank = 0};
    for (int i = 0; i < x->rank + count; i++)
        SPARTA_TRY(sparta_ops_append(g, n, &dims, set[i] ? sparta_expr_const(g->arena, 1) : x->dim[from++]));
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sparta_ops_move(g, n, 1);
}
