/* Forward: what is known of a node's outputs. */
#include "propagate/facts.h"
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------ outputs */
typedef struct forward {
    sp_propagation *p;
    const sp_axes *a;
    sp_evaluation e;
    sp_cells_view view[8];  /* of factors, bit SOME */
    int factor[8], factors; /* their inputs */
    bool product;
} forward;

static sparta_status unknown(sp_propagation *p, const sp_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        SP_TRY(sp_cells_one(p->arena, SP_UNKNOWN, &sp_fact_of(p, n->out[i])->tesa.state));
    return SPARTA_OK;
}

/* Where input i may be anything, so may the output, unless something hides it there: another factor that is zero. An ARG counts at
 * every index of a sum, so all of its products must be: `live` is where one is not. */
static sparta_status spread(const forward *f, int i, const sp_cells_view *live, uint8_t *any)
{
    const sp_value *v = f->a->n->in[i];
    const sp_role role = f->a->in[i].role;
    sp_cells open = sp_fact_of(f->p, v)->tesa.state;
    sp_cells_view view[8];
    int n = 0;
    if (f->a->in[i].sign) SP_TRY(sp_may_be_zero(f->p, v, &open));
    view[n++] = sp_view_of(f->a, &f->a->in[i], v, &open, true, 1);
    if (f->product && role == SP_ARG) view[n++] = *live;
    for (int k = 0; f->product && role == SP_FACTOR && k < f->factors; k++)
        if (f->factor[k] != i) view[n++] = f->view[k];
    SP_TRY(sp_hiders(f->p, f->a, i, false, 8, view, &n));
    sp_contract_some(f->p, f->a, view, n, any, live->stride, 1);
    return SPARTA_OK;
}

/* state of output o from the run's results, which is 0 where nothing is known of it. */
static void read_values(const forward *f, int o, const sparta_tensor *run, sp_cells *state,
                        sparta_tensor *value)
{
    const sp_value *v = f->a->n->out[o];
    int64_t index[SPARTA_RANK] = {0};
    const int64_t n = sp_cells_held(state, v->dims.rank);
    size_t size = sparta_dtype_size(v->dtype);
    for (int64_t c = 0; c < n; c++) {
        int64_t from = 0;
        for (int i = 0; i < v->dims.rank; i++)
            from = from * run->dim[i] + (state->extent[i] == 1 ? 0 : index[i]);
        if (state->at[c] != SP_UNKNOWN) {
            double x = sp_element_get(v->dtype, run->data, from);
            state->at[c] = sp_state_of(f->p->strict, x);
            sp_fact_of(f->p, v)->wild |= state->at[c] == SP_UNKNOWN;
            memcpy((char *)value->data + (size_t)c * size, (const char *)run->data + (size_t)from * size,
                   size);
        }
        for (int d = v->dims.rank - 1; d >= 0 && ++index[d] == state->extent[d]; d--) index[d] = 0;
    }
}

/* Output o: bit 1 of `state` where it is unknown; for a product, `some` where a product of constants is not 0. */
static sparta_status unknowns(forward *f, int o, sp_cells *state, bool *some)
{
    const sp_node *n = f->a->n;
    int64_t extent[SPARTA_RANK], count;
    sp_cells_view live = {.bit = 1}; /* where a product is not 0 */
    bool fine = sp_extents(f->a, &f->a->out[o], n->out[o], false, f->e.vary, extent);
    count = sp_cells_count(n->out[o]->dims.rank, extent);
    bool room = fine && count >= 0 && sp_room(f->p, count, 3 + 2 * sparta_dtype_size(n->out[o]->dtype)) &&
                sp_spend(f->p, 8 * (double)count);
    if (!room) return sp_cells_one(f->p->arena, SP_UNKNOWN, state);
    SP_TRY(sp_cells_new(f->p->arena, n->out[o]->dims.rank, extent, state));
    sp_view_strides(f->a, &f->a->out[o], n->out[o]->dims.rank, extent, false, live.stride);
    if (f->product) {
        uint8_t *products = sp_arena_alloc(f->p->arena, (size_t)SP_MAX(count, 1));
        SP_NEED(f->p->cx, products);
        sp_contract_some(f->p, f->a, f->view, f->factors, products, live.stride, 1);
        live.at = products;
    }
    for (int i = 0; i < n->n_in; i++)
        if (f->a->in[i].role != SP_SIDE) SP_TRY(spread(f, i, &live, state->at));
    for (int64_t i = 0; f->product && i < count; i++) {
        bool constant = live.at[i] && !(state->at[i] & 1);
        if (constant && f->a->no_values) state->at[i] = 1;
        *some |= constant && !f->a->no_values;
    }
    for (int64_t i = 0; i < count; i++) state->at[i] = state->at[i] & 1 ? SP_UNKNOWN : 0;
    return SPARTA_OK;
}

static void prepare(forward *f)
{
    const sp_axes *a = f->a;
    f->product = sp_zero_wins(f->p, a);
    for (int i = 0; i < a->n->n_in; i++) {
        if (a->in[i].role == SP_SIDE) continue;
        sp_cells_view v =
            sp_view_of(a, &a->in[i], a->n->in[i], &sp_fact_of(f->p, a->n->in[i])->tesa.state, true, SP_SOME);
        sp_fact_vary(a, i, sp_fact_of(f->p, a->n->in[i]), f->e.vary);
        if (a->in[i].role != SP_FACTOR) continue;
        f->factor[f->factors] = i;
        f->view[f->factors++] = v;
    }
    /* An output differs along a label that is mixed when the input does. */
    for (int l = 0; l < a->labels; l++)
        if (a->label[l].kind == SP_WHOLE) f->e.vary[l] |= f->e.vary[l + SP_LABELS];
}

static sparta_status function(sp_propagation *p, const sp_axes *a)
{
    const sp_node *n = a->n;
    forward f = {.p = p, .a = a, .e = {.label = -1, .terms = true}};
    bool some = false, ran = false, left = false;
    if (n->n_out > 8 || n->n_in > 64) return unknown(p, n);
    int factors = 0;
    for (int i = 0; i < n->n_in; i++) factors += a->in[i].role == SP_FACTOR;
    if (factors > 6) return unknown(p, n);
    prepare(&f);
    sp_vary_whole(a, f.e.vary);
    sp_cells state[8];
    sparta_tensor run[8];
    for (int o = 0; o < n->n_out; o++) {
        SP_TRY(unknowns(&f, o, &state[o], &some));
        left |= state[o].at[0] != SP_UNKNOWN || !sp_cells_all(&state[o], n->out[o]->dims.rank, 1);
    }
    f.e.products = !f.product || some;
    bool silent = a->no_values && !f.product;
    if (!left || silent) return unknown(p, n);
    SP_TRY(sp_evaluate(p, a, &f.e, run, &ran));
    bool terms = false;
    for (int i = 0; i < n->n_in; i++) terms |= a->in[i].role == SP_TERM;
    if (!ran && (!f.product || some || terms)) return unknown(p, n);
    for (int o = 0; o < n->n_out; o++) {
        sp_fact *to = sp_fact_of(p, n->out[o]);
        to->tesa.state = state[o];
        if (!ran) continue; /* known is zero */
        SP_TRY(sp_tensor_alloc_in(p->arena, n->out[o]->dtype, n->out[o]->dims.rank, state[o].extent,
                                  &to->tesa.value));
        read_values(&f, o, &run[o], &to->tesa.state, &to->tesa.value);
    }
    return SPARTA_OK;
}

sparta_status sp_known_node(sp_propagation *p, int at)
{
    const sp_axes *a = &p->axes[at];
    switch (a->how) {
    case SP_FLOW_MOVE: return sp_move_known(p, at);
    case SP_FLOW_FUNCTION:
    case SP_FLOW_PRODUCT: return function(p, a);
    default: return unknown(p, a->n);
    }
}
