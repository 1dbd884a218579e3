/* Unsqueeze: dims of 1 at the places of the result that the second input names. */
#include "ops/ints.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_dims *x = &n->in[0]->dims;
    int64_t axes[SPARTA_RANK];
    bool set[SPARTA_RANK];
    int count, from = 0;
    SP_TRY(sp_ops_constants(g, n, 1, "axes", SPARTA_RANK, axes, &count));
    if (count + x->rank > SPARTA_RANK)
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "the result has %d dims; at most %d", count + x->rank,
                           SPARTA_RANK);
    SP_TRY(sp_ops_axes(g, n, 1, x->rank + count, set, &count));
    sp_dims dims = {.rank = 0};
    for (int i = 0; i < x->rank + count; i++)
        SP_TRY(sp_ops_append(g, n, &dims, set[i] ? sp_expr_const(g->arena, 1) : x->dim[from++]));
    sp_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sp_ops_move(g, n, 1);
}

static sparta_status axes(sp_axes *a)
{
    bool set[SPARTA_RANK];
    int label[SPARTA_RANK], count, from = 0, rank = a->n->out[0]->dims.rank;
    SP_TRY(sp_ops_axes(a->g, a->n, 1, rank, set, &count));
    SP_TRY(sp_axes_labels(a, a->n->in[0], label));
    a->how = SP_FLOW_MOVE;
    a->in[0].role = a->out[0].role = SP_ARG;
    for (int i = 0; i < rank; i++) {
        if (set[i]) continue;
        a->in[0].axis[from] = a->out[0].axis[i] = sp_axis_of(label[from]);
        from++;
    }
    return SPARTA_OK;
}

SP_RULE(Unsqueeze, shape, SP_ALL, SP_EXACT, axes, NULL, "the same elements, with more axes of 1",
        "axes that are computed");
