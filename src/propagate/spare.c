/* What could go: the indices of each axis that a value could do without, before anybody is asked (agree.c). A constant could do without all
 * of them; what is dead in it is what its user would want to see go. */
#include "propagate/facts.h"
#include <string.h>

/* Index i of an axis may go when each of its elements is known or not needed. */
static sparta_status spare(sp_propagation *p, const sp_value *v, int axis)
{
    sp_fact *f = sp_fact_of(p, v);
    int64_t size = sp_axis_size(v, axis), extent[SPARTA_RANK], index[SPARTA_RANK] = {0};
    if (size < 2 || size > SP_CELLS || !sp_room(p, size, 2)) return SPARTA_OK;
    uint8_t *gone = sp_arena_alloc(p->arena, (size_t)size);
    SP_NEED(p->cx, gone);
    memset(gone, 1, (size_t)size);
    for (int i = 0; !v->constant && i < v->dims.rank; i++)
        extent[i] = SP_MAX(f->tesa.state.extent[i], f->need.extent[i]);
    int64_t count = v->constant ? 0 : sp_cells_count(v->dims.rank, extent);
    if (count < 0 || v->is_input || v->is_output) return SPARTA_OK;
    bool some = v->constant != NULL;
    const int last = v->dims.rank - 1; /* its cells lie side by side, or are one */
    const int64_t row = count ? extent[last] : 1;
    for (int64_t c = 0; c < count; c += row) {
        const uint8_t *need = f->need.at + sp_cell_at(v->dims.rank, f->need.extent, index);
        const uint8_t *state = f->tesa.state.at + sp_cell_at(v->dims.rank, f->tesa.state.extent, index);
        const int one_need = f->need.extent[last] == 1, one_state = f->tesa.state.extent[last] == 1;
        bool stays = false;
        for (int64_t i = 0; i < row; i++) {
            const bool stay = need[one_need ? 0 : i] && state[one_state ? 0 : i] & 1;
            if (stay && axis == last) gone[i] = 0;
            stays |= stay;
        }
        if (stays && extent[axis] == 1) return SPARTA_OK;
        if (stays && axis != last) gone[index[axis]] = 0;
        for (int d = last - 1; d >= 0 && ++index[d] == extent[d]; d--) index[d] = 0;
    }
    for (int64_t i = 0; i < size; i++) some |= gone[i] != 0;
    if (!some) return SPARTA_OK;
    f->gone[axis] = gone;
    f->wanted[axis] = sp_arena_alloc(p->arena, (size_t)size);
    SP_NEED(p->cx, f->wanted[axis]);
    if (!v->constant) memcpy(f->wanted[axis], gone, (size_t)size);
    return SPARTA_OK;
}

/* Slices of an axis that are all zeros: (outer, size, inner) of the states. Looking ends when none is left that could be. */
static void dead_of_axis(const uint8_t *state, int64_t outer, int64_t size, int64_t inner, uint8_t *dead)
{
    memset(dead, 1, (size_t)size);
    for (int64_t o = 0; o < outer; o++) {
        const uint8_t *at = state + o * size * inner;
        uint8_t left = 0;
        for (int64_t j = 0; j < size && inner == 1; j++) left |= dead[j] &= !at[j];
        for (int64_t j = 0; j < size && inner > 1; j++) {
            for (int64_t k = 0; k < inner && dead[j]; k++) dead[j] = !at[j * inner + k];
            left |= dead[j];
        }
        if (!left) return;
    }
}

/* What a user would call dead in a constant. */
static void dead_slices(sp_propagation *p, const sp_value *v)
{
    sp_fact *f = sp_fact_of(p, v);
    int64_t n = sp_cells_held(&f->tesa.state, v->dims.rank), inner = 1;
    for (int axis = v->dims.rank - 1; axis >= 0; axis--) {
        const int64_t size = f->tesa.state.extent[axis];
        uint8_t *dead = f->wanted[axis];
        if (dead) dead_of_axis(f->tesa.state.at, n / (size * inner), size, inner, dead);
        if (dead && size == 1) memset(dead, dead[0], (size_t)v->constant->dim[axis]); /* all are alike */
        inner *= size;
    }
}

static bool kept_by_user(const sp_propagation *p, const sp_value *v)
{
    for (int i = 0; p->options && i < p->options->n_keep; i++)
        if (!strcmp(p->options->keep[i], sp_initialiser_name(v)) || !strcmp(p->options->keep[i], v->name))
            return true;
    return false;
}

sparta_status sp_spare(sp_propagation *p)
{
    const sp_graph *g = p->g;
    for (int i = 0; i < g->n_values; i++) {
        const sp_value *v = g->value[i];
        if (!v->typed || !p->fact[i].tesa.state.at) continue;
        if (!v->constant && !p->fact[i].need.at) continue; /* nobody has it */
        if (v->constant && kept_by_user(p, v)) continue;
        for (int k = 0; k < v->dims.rank; k++) SP_TRY(spare(p, v, k));
        if (v->constant) dead_slices(p, v);
    }
    return SPARTA_OK;
}
