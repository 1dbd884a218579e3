/* Squeeze: without the dims that the second input names, which must be 1; without it, without every dim that
 * is 1. */
#include "ops/ints.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_dims *x = &n->in[0]->dims;
    sp_dims dims = {.rank = 0};
    bool set[SPARTA_RANK];
    int count;
    const sp_expr *one = sp_expr_const(g->arena, 1);
    SP_NEED(g->cx, one);
    SP_TRY(sp_ops_axes(g, n, 1, x->rank, set, &count));
    for (int i = 0; i < x->rank; i++) {
        if (count >= 0 ? !set[i] : !sp_expr_is(x->dim[i], 1))
            SP_TRY(sp_ops_append(g, n, &dims, x->dim[i]));
        else
            SP_TRY(sp_ops_agree(g, n, "a dim that is to go, and 1", x->dim[i], one));
    }
    sp_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sp_ops_move(g, n, 1);
}

static sparta_status axes(sp_axes *a)
{
    const sp_dims *x = &a->n->in[0]->dims;
    bool set[SPARTA_RANK];
    int label[SPARTA_RANK], count, to = 0;
    SP_TRY(sp_ops_axes(a->g, a->n, 1, x->rank, set, &count));
    SP_TRY(sp_axes_labels(a, a->n->in[0], label));
    a->how = SP_FLOW_MOVE;
    a->in[0].role = a->out[0].role = SP_ARG;
    for (int i = 0; i < x->rank; i++) {
        if (count >= 0 ? set[i] : sp_expr_is(x->dim[i], 1)) continue; /* an axis without label */
        a->in[0].axis[i] = a->out[0].axis[to++] = sp_axis_of(label[i]);
    }
    return SPARTA_OK;
}

/* Without a list, axes that have shrunk to 1 would go too. */
static sparta_status shrink(const sp_shrink *s)
{
    int64_t axes[SPARTA_RANK];
    int count = 0;
    if (sp_ops_has(s->n, 1)) return SPARTA_OK;
    for (int i = 0; i < s->n->in[0]->dims.rank; i++)
        if (s->axes->in[0].axis[i].n == 0) axes[count++] = i;
    return sp_shrink_list(s, 1, count, axes);
}

SP_RULE(Squeeze, shape, SP_ALL, SP_EXACT, axes, shrink, "the same elements, without axes of 1",
        "axes that are computed");
