/* Backward: what the outputs of a node need of its inputs. */
#include "propagate/facts.h"

static sparta_status need_all(sparta_propagation *p, const sparta_value *v)
{
    sparta_cells all;
    SPARTA_TRY(sparta_cells_one(p, 1, &all));
    return sparta_cells_add(p, v->dims.rank, &sparta_fact_of(p, v)->need, &all);
}

/* Input i is needed where an output is that shares its indices, unless something hides it there: another factor that is zero. */
static sparta_status need_of(sparta_propagation *p, const sparta_axes *a, int i, int o)
{
    const sparta_value *v = a->n->in[i], *y = a->n->out[o];
    bool vary[SPARTA_SPACES] = {false}, product = sparta_zero_wins(p, a) && a->in[i].role != SPARTA_TERM;
    sparta_view view[8];
    int n = 0;
    view[n++] = sparta_view_of(a, &a->out[o], y, &sparta_fact_of(p, y)->need, false, 1);
    SPARTA_TRY(sparta_hiders(p, a, i, true, 8, view, &n));
    for (int k = 0; product && k < a->n->n_in && n < 8; k++)
        if (k != i && a->in[k].role == SPARTA_FACTOR)
            view[n++] = sparta_view_of(a, &a->in[k], a->n->in[k], &sparta_fact_of(p, a->n->in[k])->state,
                                       true, SPARTA_SOME);
    for (int k = 0; k < n; k++) sparta_view_vary(&view[k], vary);
    /* Mixed: any index of the output needs every index of the input. So is what an ARG has of a sum: a key counts in a softmax even
     * where its value is 0. What comes after the mixing is met index by index. */
    for (int l = 0; l < a->labels; l++)
        if ((a->label[l].kind == SPARTA_WHOLE && !a->in[i].after) ||
            (a->label[l].kind == SPARTA_SUM && a->in[i].role == SPARTA_ARG))
            vary[l] = false;
    sparta_cells need;
    int64_t extent[SPARTA_RANK], stride[SPARTA_SPACES];
    (void)sparta_extents(a, &a->in[i], v, true, vary,
                         extent); /* where it cannot vary, it is needed if any is */
    const int64_t count = sparta_cells_count(v->dims.rank, extent);
    if (count < 0 || !sparta_room(p, count, 1)) return need_all(p, v);
    SPARTA_TRY(sparta_cells_new(p, v->dims.rank, extent, &need));
    sparta_view_strides(a, &a->in[i], v->dims.rank, extent, true, stride);
    sparta_contract_some(p, a, view, n, need.at, stride, 1);
    return sparta_cells_add(p, v->dims.rank, &sparta_fact_of(p, v)->need, &need);
}

sparta_status sparta_needed_node(sparta_propagation *p, int at)
{
    const sparta_axes *a = &p->axes[at];
    const sparta_node *n = a->n;
    for (int o = 0; o < n->n_out; o++) /* nobody asked: nothing of it is needed */
        if (!sparta_fact_of(p, n->out[o])->need.at)
            SPARTA_TRY(sparta_cells_one(p, 0, &sparta_fact_of(p, n->out[o])->need));
    for (int i = 0; i < n->n_in; i++) {
        bool data = a->how == SPARTA_FLOW_FUNCTION || a->how == SPARTA_FLOW_PRODUCT;
        if (!n->in[i] || n->in[i]->constant) continue;
        if (a->how == SPARTA_FLOW_SIZES && i == 0) continue; /* its contents are not */
        if (a->how == SPARTA_FLOW_MOVE && a->in[i].role != SPARTA_SIDE) continue;
        if (!data || a->in[i].role == SPARTA_SIDE) SPARTA_TRY(need_all(p, n->in[i]));
        for (int o = 0; data && a->in[i].role != SPARTA_SIDE && o < n->n_out; o++)
            SPARTA_TRY(need_of(p, a, i, o));
    }
    return a->how == SPARTA_FLOW_MOVE ? sparta_move_needed(p, at) : SPARTA_OK;
}
