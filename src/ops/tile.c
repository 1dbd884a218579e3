/* Tile: each dim times its entry in the second input. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_Tile(sparta_graph *g, sparta_node *n)
{
    const sparta_dims *x = &n->in[0]->dims;
    sparta_list repeats;
    sparta_dims dims = {.rank = 0};
    SPARTA_TRY(sparta_ops_list(g, n, 1, "the repeats", &repeats));
    if (repeats.n != x->rank)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "%d repeats for an input of rank %d", repeats.n,
                               x->rank);
    for (int i = 0; i < x->rank; i++)
        SPARTA_TRY(sparta_ops_append(g, n, &dims, sparta_expr_mul(g->arena, x->dim[i], repeats.x[i])));
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sparta_ops_move(g, n, 1);
}

/* x: i, y: (t i). Nothing is said of what is empty. */
static sparta_status axes(sparta_axes *a)
{
    const sparta_dims *x = &a->n->in[0]->dims, *y = &a->n->out[0]->dims;
    sparta_list repeats;
    SPARTA_TRY(sparta_ops_list(a->g, a->n, 1, "the repeats", &repeats));
    for (int i = 0; i < x->rank; i++)
        if (sparta_expr_is(y->dim[i], 0)) return SPARTA_OK;
    a->how = SPARTA_FLOW_MOVE;
    a->in[0].role = a->out[0].role = SPARTA_ARG;
    for (int i = 0; i < x->rank; i++) {
        int t = -1, l;
        if (!sparta_expr_is(repeats.x[i], 1))
            SPARTA_TRY(sparta_axes_label(a, repeats.x[i], SPARTA_EACH, NULL, &t));
        if (t >= 0) a->label[t].made = true;
        if (sparta_expr_is(x->dim[i], 1)) {
            if (t >= 0) a->out[0].axis[i] = sparta_axis_of(t);
            continue;
        }
        SPARTA_TRY(sparta_axes_label(a, x->dim[i], SPARTA_EACH, NULL, &l));
        a->in[0].axis[i] = sparta_axis_of(l);
        a->out[0].axis[i] = t < 0 ? sparta_axis_of(l) : sparta_axis_pair(t, l);
    }
    return SPARTA_OK;
}

static sparta_status shrink(const sparta_shrink *s)
{
    int64_t times[SPARTA_RANK];
    bool set[SPARTA_RANK];
    const int rank = s->n->out[0]->dims.rank;
    for (int i = 0; i < rank; i++) { /* a label that is made is the first of its axis */
        const sparta_axis *y = &s->axes->out[0].axis[i];
        const bool repeats = y->n && s->axes->label[y->label[0]].made;
        const int64_t size = repeats ? s->axes->label[y->label[0]].size : 1;
        set[i] = size >= 0;
        times[i] = repeats && set[i] ? sparta_shrink_count(s, y->label[0], 0, size) : 1;
    }
    return sparta_shrink_some(s, 1, rank, set, times);
}

const sparta_flow sparta_flow_Tile = {
    SPARTA_EXACT, "the same elements, repeated", "any", "repeats computed from data", axes, shrink};
