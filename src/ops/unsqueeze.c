/* Unsqueeze: dims of 1 at the places of the result that the second input names. */
#include "ops/flow.h"
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

static sparta_status axes(sparta_axes *a)
{
    bool set[SPARTA_RANK];
    int label[SPARTA_RANK], count, from = 0, rank = a->n->out[0]->dims.rank;
    SPARTA_TRY(sparta_ops_axes(a->g, a->n, 1, rank, set, &count));
    SPARTA_TRY(sparta_axes_labels(a, a->n->in[0], label));
    a->how = SPARTA_FLOW_MOVE;
    a->in[0].role = a->out[0].role = SPARTA_ARG;
    for (int i = 0; i < rank; i++) {
        if (set[i]) continue;
        a->in[0].axis[from] = a->out[0].axis[i] = sparta_axis_of(label[from]);
        from++;
    }
    return SPARTA_OK;
}

const sparta_flow sparta_flow_Unsqueeze = {
    SPARTA_EXACT, "the same elements, with more axes of 1", "any", "axes that are computed", axes, NULL};
