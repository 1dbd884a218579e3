/* Expand: the dims of x broadcast against those that the second input holds. */
#include "ops/ints.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    sp_list shape;
    sp_dims dims = {.rank = 0};
    SP_TRY(sp_ops_list(g, n, 1, "the shape", &shape));
    for (int i = 0; i < shape.n; i++) SP_TRY(sp_ops_append(g, n, &dims, shape.x[i]));
    SP_TRY(sp_ops_broadcast(g, n, &n->in[0]->dims, &dims, &dims));
    sp_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sp_ops_move(g, n, 1);
}

/* The input repeats along the labels that it lacks. */
static sparta_status axes(sp_axes *a)
{
    int label[SPARTA_RANK], rank = a->n->out[0]->dims.rank, x = a->n->in[0]->dims.rank;
    SP_TRY(sp_axes_labels(a, a->n->out[0], label));
    a->how = SP_FLOW_MOVE;
    sp_axes_broadcast(a, 0, SP_ARG, rank, label);
    a->out[0].role = SP_ARG;
    for (int i = 0; i < rank; i++) {
        a->out[0].axis[i] = sp_axis_of(label[i]);
        a->label[label[i]].made = i < rank - x || !a->in[0].axis[i - (rank - x)].n;
    }
    return SPARTA_OK;
}

/* 1 leaves a dim as it is; one that is made and has a symbol for its size is read from the list, which may be shorter than the rank:
 * the dims before it are the input's. */
static sparta_status shrink(const sp_shrink *s)
{
    const sp_dims *y = &s->n->out[0]->dims;
    int64_t shape[SPARTA_RANK] = {0}, count = y->rank;
    bool changed = false, set[SPARTA_RANK];
    if (s->n->in[1]->dims.rank) (void)sp_expr_is_const(s->n->in[1]->dims.dim[0], &count);
    const int before = y->rank - (int)count;
    for (int i = 0; i < y->rank; i++) {
        const int l = s->axes->out[0].axis[i].label[0];
        changed |= s->kept[l] != NULL;
        set[i] = sp_expr_is_const(y->dim[i], &shape[i]) || !s->axes->label[l].made;
        if (!s->axes->label[l].made) shape[i] = 1;
    }
    return changed ? sp_shrink_some(s, 1, (int)count, set + before, shape + before) : SPARTA_OK;
}

SP_RULE(Expand, shape, SP_ALL, SP_EXACT, axes, shrink, "the same elements, repeated",
        "a shape computed from data");
