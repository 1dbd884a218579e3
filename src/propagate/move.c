/* Operators that only move elements: every element of an output is one of an input, or the fill. Facts go with the elements, both
 * ways, one index of the output at a time. */
#include "propagate/facts.h"
#include <math.h>
#include <string.h>

typedef struct moving {
    sp_propagation *p;
    const sp_axes *a;
    bool vary[SP_LABELS];
} moving;

/* A label varies when some operand's cells differ along it, or when operands have but a part of it. */
static void find_vary(moving *m, bool needs)
{
    const sp_axes *a = m->a;
    for (int o = 0; o < sp_node_slots(a->n); o++) {
        const bool input = o < a->n->n_in;
        const sp_value *v = sp_node_slot(a->n, o);
        if (!v || a->in[o].role == SP_SIDE) continue;
        const sp_fact *f = sp_fact_of(m->p, v);
        for (int i = 0; i < v->dims.rank; i++)
            for (int j = 0; j < a->in[o].axis[i].n; j++) {
                bool differs =
                    input != needs && (input ? sp_tesa_extent(&f->tesa, i) : f->need.extent[i]) != 1;
                m->vary[a->in[o].axis[i].label[j]] |= differs || a->in[o].axis[i].window;
            }
    }
    sp_vary_whole(a, m->vary);
}

/* Extents of an operand's cells; false when they cannot be kept so fine. */
static bool extents(const moving *m, int o, const sp_value *v, int64_t *extent)
{
    for (int i = 0; i < v->dims.rank; i++) {
        const sp_axis *x = &m->a->in[o].axis[i];
        bool differs = false;
        for (int j = 0; j < x->n; j++) differs |= m->vary[x->label[j]];
        extent[i] = differs ? sp_axis_size(v, i) : 1;
        if (extent[i] < 0) return false;
    }
    int64_t count = sp_cells_count(v->dims.rank, extent), work;
    /* Each element asks every input whether it holds it. */
    return count >= 0 && sp_int_mul(count, m->a->n->n_in, &work) && work <= SP_WORK;
}

/* Is there effort left to ask of that many elements who holds them? */
static bool can_move(const moving *m, int64_t count)
{
    return sp_spend(m->p, (double)count * (10 + 4 * (double)m->a->n->n_in));
}

/* Label indices of an index of the output. */
static void labels_at(const moving *m, int o, const sp_value *v, const int64_t *index, int64_t *at)
{
    for (int i = 0; i < v->dims.rank; i++) {
        const sp_axis *x = &m->a->in[o].axis[i];
        int64_t rest = sp_axis_at(x, index[i]);
        for (int j = x->n - 1; j > 0; j--) {
            int64_t size = m->a->label[x->label[j]].size;
            at[x->label[j]] = m->vary[x->label[j]] ? rest % size : 0;
            if (m->vary[x->label[j]]) rest /= size;
        }
        if (x->n) at[x->label[0]] = rest;
    }
}

/* Index of an input's element at these label indices; false: it does not cover them. */
static bool covers(const moving *m, int i, const sp_value *v, const int64_t *at, int64_t *index)
{
    for (int k = 0; k < v->dims.rank; k++) {
        const sp_axis *x = &m->a->in[i].axis[k];
        int64_t where = 0;
        if (x->window) {
            int64_t away = at[x->label[0]] - x->from;
            if (away % x->step || away / x->step < 0 || away / x->step >= sp_axis_size(v, k)) return false;
            index[k] = away / x->step;
            continue;
        }
        for (int j = 0; j < x->n; j++)
            where = m->vary[x->label[j]] ? where * m->a->label[x->label[j]].size + at[x->label[j]] : 0;
        index[k] = where;
    }
    return true;
}

/* The input that holds this element of output o; -1: none, it is the fill. */
static int source(const moving *m, int o, const int64_t *out_index, int64_t *index)
{
    int64_t at[SP_LABELS] = {0};
    const sp_node *n = m->a->n;
    labels_at(m, n->n_in + o, n->out[o], out_index, at);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && m->a->in[i].role != SP_SIDE && covers(m, i, n->in[i], at, index)) return i;
    return -1;
}

/* ------------------------------------------------------------------ known */
static void take(const sp_fact *from, const sp_value *v, const int64_t *index, sp_fact *to, int64_t cell)
{
    const size_t size = sparta_dtype_size(v->dtype);
    to->tesa.state.at[cell] = sp_cells_get(&from->tesa.state, v->dims.rank, index);
    if (to->tesa.state.at[cell] != SP_SOME) return;
    const int64_t at = sp_cell_at(v->dims.rank, from->tesa.value.dim, index);
    memcpy((char *)to->tesa.value.data + (size_t)cell * size,
           (const char *)from->tesa.value.data + (size_t)at * size, size);
}

static void take_fill(const moving *m, const sp_value *v, sp_fact *to, int64_t cell)
{
    const sparta_tensor *fill = m->a->fill;
    size_t size = sparta_dtype_size(v->dtype);
    double x = fill ? sp_element_get(fill->dtype, fill->data, 0) : 0;
    to->tesa.state.at[cell] = sp_state_of(m->p->strict, x);
    to->wild |= to->tesa.state.at[cell] == SP_UNKNOWN;
    if (fill) memcpy((char *)to->tesa.value.data + (size_t)cell * size, fill->data, size);
}

static sparta_status known_output(const moving *m, int o)
{
    const sp_node *n = m->a->n;
    const sp_value *v = n->out[o];
    sp_fact *to = sp_fact_of(m->p, v);
    int64_t extent[SPARTA_RANK], index[SPARTA_RANK] = {0}, from[SPARTA_RANK];
    const bool fine = extents(m, n->n_in + o, v, extent);
    const int64_t count = fine ? sp_cells_count(v->dims.rank, extent) : 0;
    if (!fine || !sp_room(m->p, count, 1 + sparta_dtype_size(v->dtype)) || !can_move(m, count))
        return sp_cells_one(m->p->arena, SP_UNKNOWN, &to->tesa.state);
    SP_TRY(sp_cells_new(m->p->arena, v->dims.rank, extent, &to->tesa.state));
    SP_TRY(sp_tensor_alloc_in(m->p->arena, v->dtype, v->dims.rank, extent, &to->tesa.value));
    for (int64_t c = 0; c < count; c++) {
        int i = source(m, o, index, from);
        if (i < 0)
            take_fill(m, v, to, c);
        else
            take(sp_fact_of(m->p, n->in[i]), n->in[i], from, to, c);
        for (int d = v->dims.rank - 1; d >= 0 && ++index[d] == extent[d]; d--) index[d] = 0;
    }
    return SPARTA_OK;
}

sparta_status sp_move_known(sp_propagation *p, int at)
{
    moving m = {.p = p, .a = &p->axes[at]};
    const sp_node *n = m.a->n;
    bool something = false, inputs = false;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && m.a->in[i].role != SP_SIDE) {
            inputs = true;
            for (int o = 0; o < n->n_out; o++)
                sp_fact_of(p, n->out[o])->wild |= sp_fact_of(p, n->in[i])->wild;
            something |= !sp_cells_all(&sp_fact_of(p, n->in[i])->tesa.state, n->in[i]->dims.rank, 1);
        }
    if (inputs && !something && !m.a->fill) { /* a border of zeros around it is not worth the cells */
        for (int o = 0; o < n->n_out; o++)
            SP_TRY(sp_cells_one(p->arena, SP_UNKNOWN, &sp_fact_of(p, n->out[o])->tesa.state));
        return SPARTA_OK;
    }
    find_vary(&m, false);
    for (int o = 0; o < n->n_out; o++) SP_TRY(known_output(&m, o));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ needed */
static sparta_status need_output(const moving *m, int o, sp_cells *need)
{
    const sp_node *n = m->a->n;
    const sp_value *v = n->out[o];
    int64_t extent[SPARTA_RANK], index[SPARTA_RANK] = {0}, from[SPARTA_RANK];
    const sp_cells *wanted = &sp_fact_of(m->p, v)->need;
    bool fine = extents(m, n->n_in + o, v, extent);
    fine = fine && can_move(m, sp_cells_count(v->dims.rank, extent));
    int64_t count = fine ? sp_cells_count(v->dims.rank, extent) : 0;
    for (int i = 0; i < n->n_in && !fine; i++) /* too fine to say: all of it */
        if (need[i].at) SP_TRY(sp_cells_one(m->p->arena, 1, &need[i]));
    for (int64_t c = 0; c < count; c++) {
        if (sp_cells_get(wanted, v->dims.rank, index)) {
            int i = source(m, o, index, from);
            if (i >= 0 && need[i].at) need[i].at[sp_cell_at(n->in[i]->dims.rank, need[i].extent, from)] = 1;
        }
        for (int d = v->dims.rank - 1; d >= 0 && ++index[d] == extent[d]; d--) index[d] = 0;
    }
    return SPARTA_OK;
}

sparta_status sp_move_needed(sp_propagation *p, int at)
{
    moving m = {.p = p, .a = &p->axes[at]};
    const sp_node *n = m.a->n;
    find_vary(&m, true);
    sp_cells *need = sp_arena_array(p->arena, (size_t)SP_MAX(n->n_in, 1), sizeof *need);
    SP_NEED(p->cx, need);
    for (int i = 0; i < n->n_in; i++) {
        int64_t extent[SPARTA_RANK];
        if (!n->in[i] || n->in[i]->constant || m.a->in[i].role == SP_SIDE) continue;
        if (extents(&m, i, n->in[i], extent) && sp_room(p, sp_cells_count(n->in[i]->dims.rank, extent), 1))
            SP_TRY(sp_cells_new(p->arena, n->in[i]->dims.rank, extent, &need[i]));
        else
            SP_TRY(sp_cells_one(p->arena, 1, &need[i]));
    }
    for (int o = 0; o < n->n_out; o++) SP_TRY(need_output(&m, o, need));
    for (int i = 0; i < n->n_in; i++)
        if (need[i].at)
            SP_TRY(sp_cells_add(p, n->in[i]->dims.rank, &sp_fact_of(p, n->in[i])->need, &need[i]));
    return SPARTA_OK;
}
