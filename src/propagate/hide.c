/* What one operand holds may hide others (ops/flow.h): views of where an input counts, for both directions.
 *
 *     y = Where(c, x, z)      c     0  1  ?  1
 *                             x     .  x  x  x     counts where c may be other than 0
 *                             z     z  .  z  .     counts where c may be 0
 */
#include "propagate/facts.h"

bool sp_zero_wins(const sp_propagation *p, const sp_axes *a)
{
    bool floats = false, wild = false;
    if (a->how != SP_FLOW_PRODUCT) return false;
    for (int i = 0; i < a->n->n_in; i++) {
        if (!a->n->in[i] || (a->in[i].role != SP_FACTOR && a->in[i].role != SP_ARG)) continue;
        floats |= sp_dtype_is_float(a->n->in[i]->dtype);
        wild |= sp_fact_of(p, a->n->in[i])->wild;
    }
    return !wild && !(floats && p->strict); /* integers are all finite */
}

/* Cells like those of a state, in the arena; NULL in out->at: there is no room. */
static sparta_status like_state(const sp_propagation *p, const sp_value *v, sp_cells *out)
{
    const sp_cells *state = &sp_fact_of(p, v)->tesa.state;
    const int64_t n = sp_cells_count(v->dims.rank, state->extent);
    *out = (sp_cells){.at = NULL};
    if (n < 0 || !sp_room(p, n, 1) || !sp_spend(p, 4 * (double)n)) return SPARTA_OK;
    return sp_cells_new(p->arena, v->dims.rank, state->extent, out);
}

sparta_status sp_may_be_zero(const sp_propagation *p, const sp_value *v, sp_cells *out)
{
    const sp_cells *state = &sp_fact_of(p, v)->tesa.state;
    SP_TRY(like_state(p, v, out));
    if (!out->at) return sp_cells_one(p->arena, 1, out);
    for (int64_t i = 0, n = sp_cells_count(v->dims.rank, state->extent); i < n; i++)
        out->at[i] = state->at[i] != SP_SOME;
    return SPARTA_OK;
}

/* Does the axis run along a WHOLE label? */
static bool is_line(const sp_axes *a, const sp_axis *x)
{
    bool whole = x->n > 0;
    for (int j = 0; j < x->n; j++) whole &= a->label[x->label[j]].kind == SP_WHOLE;
    return whole;
}

/* Of an input that hides itself: 1 where its line has no zero. `zeros` has those that make it so count, too: somebody must be 0. */
static sparta_status lines(const sp_propagation *p, const sp_axes *a, int i, bool zeros, sp_cells *out)
{
    const sp_value *v = a->n->in[i];
    const sp_cells *state = &sp_fact_of(p, v)->tesa.state;
    const int rank = v->dims.rank;
    sp_cells zero; /* 1 at the first cell of a line that has one */
    SP_TRY(like_state(p, v, &zero));
    SP_TRY(like_state(p, v, out));
    if (!zero.at || !out->at) return sp_cells_one(p->arena, 1, out);
    const int64_t n = sp_cells_count(rank, state->extent);
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

sparta_status sp_hiders(const sp_propagation *p, const sp_axes *a, int i, bool needs, int most,
                        sp_cells_view *view, int *n)
{
    if (i >= 64) return SPARTA_OK; /* no set has it */
    const uint64_t me = (uint64_t)1 << i;
    if (a->how == SP_FLOW_PRODUCT && !sp_zero_wins(p, a)) return SPARTA_OK;
    for (int k = 0; k < a->n->n_in; k++) {
        const sp_flow_operand *o = &a->in[k];
        const sp_value *v = a->n->in[k];
        sp_cells c;
        if (o->role == SP_SIDE || !v) continue;
        if (o->hides[false] & me && *n < most) {
            c = sp_fact_of(p, v)->tesa.state;
            if (k == i) SP_TRY(lines(p, a, i, needs, &c));
            view[(*n)++] = sp_view_of(a, o, v, &c, true, k == i ? 1 : SP_SOME);
        }
        const bool sure = !p->strict || !sp_dtype_is_float(v->dtype); /* -0.0 is no other constant here */
        if (o->hides[true] & me && sure && k != i && *n < most) {
            SP_TRY(sp_may_be_zero(p, v, &c));
            view[(*n)++] = sp_view_of(a, o, v, &c, true, 1);
        }
    }
    return SPARTA_OK;
}
