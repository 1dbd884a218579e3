/* Forward: what is known of a node's outputs. */
#include "propagate/facts.h"
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------ outputs */
typedef struct forward {
    sparta_propagation *p;
    const sparta_axes *a;
    sparta_evaluation e;
    sparta_view view[8];    /* of factors, bit SOME */
    int factor[8], factors; /* their inputs */
    bool product;
} forward;

static sparta_status unknown(sparta_propagation *p, const sparta_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        SPARTA_TRY(sparta_cells_one(p, SPARTA_UNKNOWN, &sparta_fact_of(p, n->out[i])->state));
    return SPARTA_OK;
}

/* Where input i may be anything, so may the output, unless something hides it there: another factor that is zero. An ARG counts at
 * every index of a sum, so all of its products must be: `live` is where one is not. */
static sparta_status spread(const forward *f, int i, const sparta_view *live, uint8_t *any)
{
    const sparta_value *v = f->a->n->in[i];
    const sparta_role role = f->a->in[i].role;
    sparta_cells open = sparta_fact_of(f->p, v)->state;
    sparta_view view[8];
    int n = 0;
    if (f->a->in[i].sign) SPARTA_TRY(sparta_may_be_zero(f->p, v, &open));
    view[n++] = sparta_view_of(f->a, &f->a->in[i], v, &open, true, 1);
    if (f->product && role == SPARTA_ARG) view[n++] = *live;
    for (int k = 0; f->product && role == SPARTA_FACTOR && k < f->factors; k++)
        if (f->factor[k] != i) view[n++] = f->view[k];
    SPARTA_TRY(sparta_hiders(f->p, f->a, i, false, 8, view, &n));
    sparta_contract_some(f->p, f->a, view, n, any, live->stride, 1);
    return SPARTA_OK;
}

/* state of output o from the run's results, which is 0 where nothing is known of it. */
static void read_values(const forward *f, int o, const sparta_tensor *run, sparta_cells *state,
                        sparta_tensor *value)
{
    const sparta_value *v = f->a->n->out[o];
    int64_t index[SPARTA_RANK] = {0};
    const int64_t n = sparta_cells_held(state, v->dims.rank);
    size_t size = sparta_dtype_size(v->dtype);
    for (int64_t c = 0; c < n; c++) {
        int64_t from = 0;
        for (int i = 0; i < v->dims.rank; i++)
            from = from * run->dim[i] + (state->extent[i] == 1 ? 0 : index[i]);
        if (state->at[c] != SPARTA_UNKNOWN) {
            double x = sparta_element_get(v->dtype, run->data, from);
            state->at[c] = sparta_state_of(f->p, x);
            sparta_fact_of(f->p, v)->wild |= state->at[c] == SPARTA_UNKNOWN;
            memcpy((char *)value->data + (size_t)c * size, (const char *)run->data + (size_t)from * size,
                   size);
        }
        for (int d = v->dims.rank - 1; d >= 0 && ++index[d] == state->extent[d]; d--) index[d] = 0;
    }
}

/* Output o: bit 1 of `state` where it is unknown; for a product, `some` where a product of constants is not 0. */
static sparta_status unknowns(forward *f, int o, sparta_cells *state, bool *some)
{
    const sparta_node *n = f->a->n;
    int64_t extent[SPARTA_RANK], count;
    sparta_view live = {.bit = 1}; /* where a product is not 0 */
    bool fine = sparta_extents(f->a, &f->a->out[o], n->out[o], false, f->e.vary, extent);
    count = sparta_cells_count(n->out[o]->dims.rank, extent);
    bool room = fine && count >= 0 && sparta_room(f->p, count, 3 + 2 * sparta_dtype_size(n->out[o]->dtype)) &&
                sparta_spend(f->p, 8 * (double)count);
    if (!room) return sparta_cells_one(f->p, SPARTA_UNKNOWN, state);
    SPARTA_TRY(sparta_cells_new(f->p, n->out[o]->dims.rank, extent, state));
    sparta_view_strides(f->a, &f->a->out[o], n->out[o]->dims.rank, extent, false, live.stride);
    if (f->product) {
        uint8_t *products = sparta_arena_alloc(f->p->arena, (size_t)SPARTA_MAX(count, 1));
        SPARTA_NEED(f->p->cx, products);
        sparta_contract_some(f->p, f->a, f->view, f->factors, products, live.stride, 1);
        live.at = products;
    }
    for (int i = 0; i < n->n_in; i++)
        if (f->a->in[i].role != SPARTA_SIDE) SPARTA_TRY(spread(f, i, &live, state->at));
    for (int64_t i = 0; f->product && i < count; i++) {
        bool constant = live.at[i] && !(state->at[i] & 1);
        if (constant && f->a->no_values) state->at[i] = 1;
        *some |= constant && !f->a->no_values;
    }
    for (int64_t i = 0; i < count; i++) state->at[i] = state->at[i] & 1 ? SPARTA_UNKNOWN : 0;
    return SPARTA_OK;
}

static void prepare(forward *f)
{
    const sparta_axes *a = f->a;
    f->product = sparta_zero_wins(f->p, a);
    for (int i = 0; i < a->n->n_in; i++) {
        if (a->in[i].role == SPARTA_SIDE) continue;
        sparta_view v = sparta_view_of(a, &a->in[i], a->n->in[i], &sparta_fact_of(f->p, a->n->in[i])->state,
                                       true, SPARTA_SOME);
        sparta_fact_vary(a, i, sparta_fact_of(f->p, a->n->in[i]), f->e.vary);
        if (a->in[i].role != SPARTA_FACTOR) continue;
        f->factor[f->factors] = i;
        f->view[f->factors++] = v;
    }
    for (int l = 0; l < a->labels;
         l++) /* an output differs along a label that is mixed when the input does */
        if (a->label[l].kind == SPARTA_WHOLE) f->e.vary[l] |= f->e.vary[l + SPARTA_LABELS];
}

static sparta_status function(sparta_propagation *p, const sparta_axes *a)
{
    const sparta_node *n = a->n;
    forward f = {.p = p, .a = a, .e = {.label = -1, .terms = true}};
    bool some = false, ran = false, left = false;
    if (n->n_out > 8 || n->n_in > 64) return unknown(p, n);
    int factors = 0;
    for (int i = 0; i < n->n_in; i++) factors += a->in[i].role == SPARTA_FACTOR;
    if (factors > 6) return unknown(p, n);
    prepare(&f);
    sparta_vary_whole(a, f.e.vary);
    sparta_cells state[8];
    sparta_tensor run[8];
    for (int o = 0; o < n->n_out; o++) {
        SPARTA_TRY(unknowns(&f, o, &state[o], &some));
        left |= state[o].at[0] != SPARTA_UNKNOWN || !sparta_cells_all(&state[o], n->out[o]->dims.rank, 1);
    }
    f.e.products = !f.product || some;
    bool silent = a->no_values && !f.product;
    if (!left || silent) return unknown(p, n);
    SPARTA_TRY(sparta_evaluate(p, a, &f.e, run, &ran));
    bool terms = false;
    for (int i = 0; i < n->n_in; i++) terms |= a->in[i].role == SPARTA_TERM;
    if (!ran && (!f.product || some || terms)) return unknown(p, n);
    for (int o = 0; o < n->n_out; o++) {
        sparta_fact *to = sparta_fact_of(p, n->out[o]);
        to->state = state[o];
        if (!ran) continue; /* known is zero */
        SPARTA_TRY(sparta_tensor_alloc_in(p->arena, n->out[o]->dtype, n->out[o]->dims.rank, state[o].extent,
                                          &to->value));
        read_values(&f, o, &run[o], &to->state, &to->value);
    }
    return SPARTA_OK;
}

sparta_status sparta_known_node(sparta_propagation *p, int at)
{
    const sparta_axes *a = &p->axes[at];
    switch (a->how) {
    case SPARTA_FLOW_MOVE: return sparta_move_known(p, at);
    case SPARTA_FLOW_FUNCTION:
    case SPARTA_FLOW_PRODUCT: return function(p, a);
    default: return unknown(p, a->n);
    }
}
