/* Squeeze: without the dims that the second input names, which must be 1; without it, without every dim that
 * is 1. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_Squeeze(sparta_graph *g, sparta_node *n)
{
    const sparta_dims *x = &n->in[0]->dims;
    sparta_dims dims = {.rank = 0};
    bool set[SPARTA_RANK];
    int count;
    const sparta_expr *one = sparta_expr_const(g->arena, 1);
    SPARTA_NEED(g->cx, one);
    SPARTA_TRY(sparta_ops_axes(g, n, 1, x->rank, set, &count));
    for (int i = 0; i < x->rank; i++) {
        if (count >= 0 ? !set[i] : !sparta_expr_is(x->dim[i], 1))
            SPARTA_TRY(sparta_ops_append(g, n, &dims, x->dim[i]));
        else
            SPARTA_TRY(sparta_ops_agree(g, n, "a dim that is to go, and 1", x->dim[i], one));
    }
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sparta_ops_move(g, n, 1);
}

static sparta_status axes(sparta_axes *a)
{
    const sparta_dims *x = &a->n->in[0]->dims;
    bool set[SPARTA_RANK];
    int label[SPARTA_RANK], count, to = 0;
    SPARTA_TRY(sparta_ops_axes(a->g, a->n, 1, x->rank, set, &count));
    SPARTA_TRY(sparta_axes_labels(a, a->n->in[0], label));
    a->how = SPARTA_FLOW_MOVE;
    a->in[0].role = a->out[0].role = SPARTA_ARG;
    for (int i = 0; i < x->rank; i++) {
        if (count >= 0 ? set[i] : sparta_expr_is(x->dim[i], 1)) continue; /* an axis without label */
        a->in[0].axis[i] = a->out[0].axis[to++] = sparta_axis_of(label[i]);
    }
    return SPARTA_OK;
}

/* Without a list, axes that have shrunk to 1 would go too. */
static sparta_status shrink(const sparta_shrink *s)
{
    int64_t axes[SPARTA_RANK];
    int count = 0;
    if (sparta_ops_has(s->n, 1)) return SPARTA_OK;
    for (int i = 0; i < s->n->in[0]->dims.rank; i++)
        if (s->axes->in[0].axis[i].n == 0) axes[count++] = i;
    return sparta_shrink_list(s, 1, count, axes);
}

const sparta_flow sparta_flow_Squeeze = {
    SPARTA_EXACT, "the same elements, without axes of 1", "any", "axes that are computed", axes, shrink};
