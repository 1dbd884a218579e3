/* Tile: each dim times its entry in the second input. */
#include "ops/ints.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_dims *x = &n->in[0]->dims;
    sp_list repeats;
    sp_dims dims = {.rank = 0};
    SP_TRY(sp_ops_list(g, n, 1, "the repeats", &repeats));
    if (repeats.n != x->rank)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%d repeats for an input of rank %d", repeats.n, x->rank);
    for (int i = 0; i < x->rank; i++)
        SP_TRY(sp_ops_append(g, n, &dims, sp_expr_mul(g->arena, x->dim[i], repeats.x[i])));
    sp_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sp_ops_move(g, n, 1);
}

/* x: i, y: (t i). Nothing is said of what is empty. */
static sparta_status axes(sp_axes *a)
{
    const sp_dims *x = &a->n->in[0]->dims, *y = &a->n->out[0]->dims;
    sp_list repeats;
    SP_TRY(sp_ops_list(a->g, a->n, 1, "the repeats", &repeats));
    for (int i = 0; i < x->rank; i++)
        if (sp_expr_is(y->dim[i], 0)) return SPARTA_OK;
    a->how = SP_FLOW_MOVE;
    a->in[0].role = a->out[0].role = SP_ARG;
    for (int i = 0; i < x->rank; i++) {
        int t = -1, l;
        if (!sp_expr_is(repeats.x[i], 1)) SP_TRY(sp_axes_label(a, repeats.x[i], SP_EACH, NULL, &t));
        if (t >= 0) a->label[t].made = true;
        if (sp_expr_is(x->dim[i], 1)) {
            if (t >= 0) a->out[0].axis[i] = sp_axis_of(t);
            continue;
        }
        SP_TRY(sp_axes_label(a, x->dim[i], SP_EACH, NULL, &l));
        a->in[0].axis[i] = sp_axis_of(l);
        a->out[0].axis[i] = t < 0 ? sp_axis_of(l) : sp_axis_pair(t, l);
    }
    return SPARTA_OK;
}

static sparta_status shrink(const sp_shrink *s)
{
    int64_t times[SPARTA_RANK];
    bool set[SPARTA_RANK];
    const int rank = s->n->out[0]->dims.rank;
    for (int i = 0; i < rank; i++) { /* a label that is made is the first of its axis */
        const sp_axis *y = &s->axes->out[0].axis[i];
        const bool repeats = y->n && s->axes->label[y->label[0]].made;
        const int64_t size = repeats ? s->axes->label[y->label[0]].size : 1;
        set[i] = size >= 0;
        times[i] = repeats && set[i] ? sp_shrink_count(s, y->label[0], 0, size) : 1;
    }
    return sp_shrink_some(s, 1, rank, set, times);
}

SP_RULE(Tile, shape, SP_ALL, SP_EXACT, axes, shrink, "the same elements, repeated",
        "repeats computed from data");
