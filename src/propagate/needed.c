/* Backward: what the outputs of a node need of its inputs. */
#include "propagate/facts.h"

static sparta_status need_all(sp_propagation *p, const sp_value *v)
{
    sp_cells all;
    SP_TRY(sp_cells_one(p->arena, 1, &all));
    return sp_cells_add(p, v->dims.rank, &sp_fact_of(p, v)->need, &all);
}

/* Input i is needed where an output is that shares its indices, unless something hides it there: another factor that is zero. */
static sparta_status need_of(sp_propagation *p, const sp_axes *a, int i, int o)
{
    const sp_value *v = a->n->in[i], *y = a->n->out[o];
    bool vary[SP_SPACES] = {false}, product = sp_zero_wins(p, a) && a->in[i].role != SP_TERM;
    sp_cells_view view[8];
    int n = 0;
    view[n++] = sp_view_of(a, &a->out[o], y, &sp_fact_of(p, y)->need, false, 1);
    SP_TRY(sp_hiders(p, a, i, true, 8, view, &n));
    for (int k = 0; product && k < a->n->n_in && n < 8; k++)
        if (k != i && a->in[k].role == SP_FACTOR)
            view[n++] =
                sp_view_of(a, &a->in[k], a->n->in[k], &sp_fact_of(p, a->n->in[k])->tesa.state, true, SP_SOME);
    for (int k = 0; k < n; k++) sp_view_vary(&view[k], vary);
    /* Mixed: any index of the output needs every index of the input. So is what an ARG has of a sum: a key counts in a softmax even
     * where its value is 0. What comes after the mixing is met index by index. */
    for (int l = 0; l < a->labels; l++)
        if ((a->label[l].kind == SP_WHOLE && !a->in[i].after) ||
            (a->label[l].kind == SP_SUM && a->in[i].role == SP_ARG))
            vary[l] = false;
    sp_cells need;
    int64_t extent[SPARTA_RANK], stride[SP_SPACES];
    (void)sp_extents(a, &a->in[i], v, true, vary, extent); /* where it cannot vary, it is needed if any is */
    const int64_t count = sp_cells_count(v->dims.rank, extent);
    if (count < 0 || !sp_room(p, count, 1)) return need_all(p, v);
    SP_TRY(sp_cells_new(p->arena, v->dims.rank, extent, &need));
    sp_view_strides(a, &a->in[i], v->dims.rank, extent, true, stride);
    sp_contract_some(p, a, view, n, need.at, stride, 1);
    /* Mostly all of it is needed, which the nodes above then need not look at cell by cell. */
    sp_cells_tighten(&need, v->dims.rank);
    return sp_cells_add(p, v->dims.rank, &sp_fact_of(p, v)->need, &need);
}

sparta_status sp_needed_node(sp_propagation *p, int at)
{
    const sp_axes *a = &p->axes[at];
    const sp_node *n = a->n;
    for (int o = 0; o < n->n_out; o++) /* nobody asked: nothing of it is needed */
        if (!sp_fact_of(p, n->out[o])->need.at)
            SP_TRY(sp_cells_one(p->arena, 0, &sp_fact_of(p, n->out[o])->need));
    for (int i = 0; i < n->n_in; i++) {
        bool data = a->how == SP_FLOW_FUNCTION || a->how == SP_FLOW_PRODUCT;
        if (!n->in[i] || n->in[i]->constant) continue;
        if (a->how == SP_FLOW_SIZES && i == 0) continue; /* its contents are not */
        if (a->how == SP_FLOW_MOVE && a->in[i].role != SP_SIDE) continue;
        if (!data || a->in[i].role == SP_SIDE) SP_TRY(need_all(p, n->in[i]));
        for (int o = 0; data && a->in[i].role != SP_SIDE && o < n->n_out; o++) SP_TRY(need_of(p, a, i, o));
    }
    return a->how == SP_FLOW_MOVE ? sp_move_needed(p, at) : SPARTA_OK;
}
