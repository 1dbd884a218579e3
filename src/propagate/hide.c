/* What one operand holds may hide others (ops/flow.h): views of where an input counts, for both directions.
 *
 *     y = Where(c, x, z)      c     0  1  ?  1
 *                             x     .  x  x  x     counts where c may be other than 0
 *                             z     z  .  z  .     counts where c may be 0
 */
#include "propagate/facts.h"

bool sparta_zero_wins(const sparta_propagation *p, const sparta_axes *a)
{
    bool floats = false, wild = false;
    if (a->how != SPARTA_FLOW_PRODUCT) return false;
    for (int i = 0; i < a->n->n_in; i++) {
        if (!a->n->in[i] || (a->in[i].role != SPARTA_FACTOR && a->in[i].role != SPARTA_ARG)) continue;
        floats |= sparta_dtype_is_float(a->n->in[i]->dtype);
        wild |= sparta_fact_of(p, a->n->in[i])->wild;
    }
    return !wild && !(floats && p->strict); /* integers are all finite */
}

/* Cells like those of a state, in the arena; NULL in out->at: there is no room. */
static sparta_status like_state(const sparta_propagation *p, const sparta_value *v, sparta_cells *out)
{
    const sparta_cells *state = &sparta_fact_of(p, v)->state;
    const int64_t n = sparta_cells_count(v->dims.rank, state->extent);
    *out = (sparta_cells){.at = NULL};
    if (n < 0 || !sparta_room(p, n, 1) || !sparta_spend(p, 4 * (double)n)) return SPARTA_OK;
    return sparta_cells_new(p, v->dims.rank, state->extent, out);
}

sparta_status sparta_may_be_zero(const sparta_propagation *p, const sparta_value *v, sparta_cells *out)
{
    const sparta_cells *state = &sparta_fact_of(p, v)->state;
    SPARTA_TRY(like_state(p, v, out));
    if (!out->at) return sparta_cells_one(p, 1, out);
    for (int64_t i = 0, n = sparta_cells_count(v->dims.rank, state->extent); i < n; i++)
        out->at[i] = state->at[i] != SPARTA_SOME;
    return SPARTA_OK;
}

/* Does the axis run along a WHOLE label? */
static bool is_line(const sparta_axes *a, const sparta_axis *x)
{
    bool whole = x->n > 0;
    for (int j = 0; j < x->n; j++) whole &= a->label[x->label[j]].kind == SPARTA_WHOLE;
    return whole;
}

/* Of an input that hides itself: 1 where its line has no zero. `zeros` has those that make it so count, too: somebody must be 0. */
static sparta_status lines(const sparta_propagation *p, const sparta_axes *a, int i, bool zeros,
                           sparta_cells *out)
{
    const sparta_value *v = a->n->in[i];
    const sparta_cells *state = &sparta_fact_of(p, v)->state;
    const int rank = v->dims.rank;
    sparta_cells zero; /* 1 at the first cell of a line that has one */
    SPARTA_TRY(like_state(p, v, &zero));
    SPARTA_TRY(like_state(p, v, out));
    if (!zero.at || !out->at) return sparta_cells_one(p, 1, out);
    const int64_t n = sparta_cells_count(rank, state->extent);
    for (int pass = 0; pass < 2; pass++) {
        int64_t index[SPARTA_RANK] = {0};
        for (int64_t c = 0; c < n; c++) {
            int64_t first = 0;
            for (int k = 0; k < rank; k++)
                first = first * state->extent[k] + (is_line(a, &a->in[i].axis[k]) ? 0 : index[k]);
            if (pass == 0)
                zero.at[first] |= !state->at[c];
            else
                out->at[c] = !zero.at[first] || (zeros && !state->at[c]);
            for (int d = rank - 1; d >= 0 && ++index[d] == state->extent[d]; d--) index[d] = 0;
        }
    }
    return SPARTA_OK;
}

sparta_status sparta_hiders(const sparta_propagation *p, const sparta_axes *a, int i, bool needs, int most,
                            sparta_view *view, int *n)
{
    if (i >= 64) return SPARTA_OK; /* no set has it */
    const uint64_t me = (uint64_t)1 << i;
    if (a->how == SPARTA_FLOW_PRODUCT && !sparta_zero_wins(p, a)) return SPARTA_OK;
    for (int k = 0; k < a->n->n_in; k++) {
        const sparta_flow_operand *o = &a->in[k];
        const sparta_value *v = a->n->in[k];
        sparta_cells c;
        if (o->role == SPARTA_SIDE || !v) continue;
        if (o->hides[false] & me && *n < most) {
            c = sparta_fact_of(p, v)->state;
            if (k == i) SPARTA_TRY(lines(p, a, i, needs, &c));
            view[(*n)++] = sparta_view_of(a, o, v, &c, true, k == i ? 1 : SPARTA_SOME);
        }
        const bool sure = !p->strict || !sparta_dtype_is_float(v->dtype); /* -0.0 is no other constant here */
        if (o->hides[true] & me && sure && k != i && *n < most) {
            SPARTA_TRY(sparta_may_be_zero(p, v, &c));
            view[(*n)++] = sparta_view_of(a, o, v, &c, true, 1);
        }
    }
    return SPARTA_OK;
}
