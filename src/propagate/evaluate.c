/* Constants are computed as the model computes them: the node's own reference runs on its known elements alone.
 *
 * Labels along which all that is known is alike have one index in the run (or as many as the rule says, `run`), so the run is
 * small: a BatchNormalization of (batch, 64, h, w) runs on (1, 64, 1, 1). */
#include "propagate/facts.h"
#include <math.h>
#include <string.h>

/* How many indices a label has in the run; -1: it would need a number that is not there. */
static int64_t run_size(const sp_axes *a, const sp_evaluation *e, int l)
{
    const sp_label *x = &a->label[l];
    if (e->pick && l == e->label) return e->picks;
    if (x->kind == SP_SUM && !e->products && !x->why) return 1; /* of zeros */
    if (e->vary[l] || e->vary[l + SP_LABELS]) return x->size;
    if (x->run) return x->run;
    if (x->kind == SP_SUM && !e->products) return 1;
    return x->kind == SP_EACH ? 1 : x->size;
}

static bool run_dims(const sp_axes *a, const sp_evaluation *e, const sp_flow_operand *o, const sp_value *v,
                     int64_t *dim)
{
    for (int i = 0; i < v->dims.rank; i++) {
        dim[i] = 1;
        for (int j = 0; j < o->axis[i].n; j++) {
            int64_t n = run_size(a, e, o->axis[i].label[j]);
            if (n < 0 || !sp_int_mul(dim[i], n, &dim[i]) || dim[i] > SP_WORK) return false;
        }
    }
    return true;
}

/* The index of an axis that index i of the run stands for: composite axes come apart by run sizes. */
static int64_t index_of(const sp_axes *a, const sp_evaluation *e, const sp_axis *x, int64_t i)
{
    int64_t index = 0, inner = 1;
    for (int j = x->n - 1; j >= 0; j--) {
        const int l = x->label[j];
        const int64_t n = SP_MAX(run_size(a, e, l), 1), at = i % n;
        index += inner * (e->pick && l == e->label ? e->pick[at] : at);
        inner *= a->label[l].size;
        i /= n;
    }
    return index;
}

/* Where the cells of an operand lie for each index of each axis of the run: offsets add up. */
typedef struct places {
    int64_t *state[SPARTA_RANK], *value[SPARTA_RANK];
} places;

static sparta_status find_places(const sp_axes *a, const sp_evaluation *e, int i, const sp_fact *f,
                                 const int64_t *dim, sp_arena *scratch, places *out)
{
    int64_t states = 1, values = 1;
    for (int k = a->n->in[i]->dims.rank - 1; k >= 0; k--) {
        out->state[k] = sp_arena_array(scratch, (size_t)SP_MAX(dim[k], 1), sizeof **out->state);
        out->value[k] = sp_arena_array(scratch, (size_t)SP_MAX(dim[k], 1), sizeof **out->value);
        SP_NEED(sp_arena_ctx(scratch), out->state[k] && out->value[k]);
        for (int64_t j = 0; j < dim[k]; j++) {
            const int64_t index = index_of(a, e, &a->in[i].axis[k], j);
            out->state[k][j] = f->tesa.state.extent[k] == 1 ? 0 : index * states;
            out->value[k][j] = f->tesa.value.dim[k] == 1 ? 0 : index * values;
        }
        states *= f->tesa.state.extent[k];
        values *= f->tesa.value.dim[k];
    }
    return SPARTA_OK;
}

/* The constants of axes from `axis` on, and 0 where there are none. */
static char *copy_known(const sp_fact *f, const places *at, const sparta_tensor *out, int axis, int64_t state,
                        int64_t value, char *to)
{
    const size_t size = sparta_dtype_size(out->dtype);
    const char *from = f->tesa.value.data;
    if (axis == out->rank) {
        if (f->tesa.state.at[state] == SP_SOME) memcpy(to, from + (size_t)value * size, size);
        return to + size;
    }
    const int64_t *s = at->state[axis], *v = at->value[axis], n = out->dim[axis];
    if (axis < out->rank - 1 || size != 4) {
        for (int64_t i = 0; i < n; i++) to = copy_known(f, at, out, axis + 1, state + s[i], value + v[i], to);
        return to;
    }
    for (int64_t i = 0; i < n; i++, to += 4) /* nearly always */
        if (f->tesa.state.at[state + s[i]] == SP_SOME) memcpy(to, from + (size_t)(value + v[i]) * 4, 4);
    return to;
}

/* A constant that the run needs as it is? */
static bool as_it_is(const sp_value *v, const sp_fact *f, const int64_t *dim)
{
    for (int i = 0; v->constant && i < v->dims.rank; i++)
        if (dim[i] != v->constant->dim[i]) return false;
    return v->constant && !sp_cells_has(&f->tesa.state, v->dims.rank, 1);
}

static sparta_status input_of(sp_propagation *p, const sp_axes *a, const sp_evaluation *e, int i,
                              sp_arena *scratch, sparta_tensor *out)
{
    const sp_flow_operand *o = &a->in[i];
    const sp_value *v = a->n->in[i];
    const sp_fact *f = sp_fact_of(p, v);
    int64_t dim[SPARTA_RANK];
    (void)run_dims(a, e, o, v, dim); /* sp_evaluable said yes */
    bool blank = (o->role == SP_FACTOR && !e->products) || (o->role == SP_TERM && !e->terms);
    if (!blank && !e->pick && as_it_is(v, f, dim)) {
        *out = *v->constant;
        return SPARTA_OK;
    }
    SP_TRY(sp_tensor_alloc_in(scratch, v->dtype, v->dims.rank, dim, out));
    if (blank || !f->tesa.value.data) return SPARTA_OK;
    places at;
    SP_TRY(find_places(a, e, i, f, dim, scratch, &at));
    (void)copy_known(f, &at, out, 0, 0, 0, out->data);
    return SPARTA_OK;
}

static double work_of(const sp_axes *a, const sp_evaluation *e)
{
    double work = 1;
    for (int l = 0; l < a->labels; l++) work *= (double)SP_MAX(run_size(a, e, l), 1);
    return work;
}

/* Everything that is summed over costs work for each output element. */
static bool affordable(const sp_axes *a, const sp_evaluation *e)
{
    int64_t work = 1;
    for (int l = 0; l < a->labels; l++) {
        int64_t n = run_size(a, e, l);
        bool varies = e->vary[l] || e->vary[l + SP_LABELS];
        bool alike = a->label[l].alike || (a->label[l].run && a->label[l].run != n);
        if (varies && alike) return false; /* the rule wants them alike */
        if (n < 0) continue;               /* no operand of the run has it, or run_dims says so */
        if (!sp_int_mul(work, SP_MAX(n, 1), &work) || work > SP_WORK) return false;
    }
    return true;
}

bool sp_evaluable(const sp_axes *a, const sp_evaluation *e)
{
    const sp_node *n = a->n;
    int64_t work = 0, dim[SPARTA_RANK];
    if (!affordable(a, e)) return false;
    for (int i = 0; i < sp_node_slots(n); i++) { /* in and out are one array */
        const sp_value *v = sp_node_slot(n, i);
        if (!v || (i < n->n_in && a->in[i].role == SP_SIDE && v->constant)) continue;
        if ((i < n->n_in && a->in[i].role == SP_SIDE) || !run_dims(a, e, &a->in[i], v, dim)) return false;
        sparta_tensor shape = sparta_tensor_view(v->dtype, v->dims.rank, dim, NULL);
        int64_t count = sparta_tensor_elements(&shape);
        if (count < 0 || (work += count) > SP_WORK) return false;
    }
    return true;
}

/* The indices of a label that are asked for. */
static sparta_status list_picks(sp_arena *arena, const sp_axes *a, sp_evaluation *e)
{
    if (e->label < 0 || !e->only) return SPARTA_OK;
    int64_t *pick = sp_arena_array(arena, (size_t)SP_MAX(a->label[e->label].size, 1), sizeof *pick);
    SP_NEED(sp_arena_ctx(arena), pick);
    for (int64_t i = 0; i < a->label[e->label].size; i++)
        if (e->only[i]) pick[e->picks++] = i;
    e->pick = pick;
    return SPARTA_OK;
}

static sparta_status run_on(sp_propagation *p, const sp_axes *a, const sp_evaluation *asked,
                            sp_arena *scratch, sparta_tensor *out, bool *ran)
{
    const sp_node *n = a->n;
    sp_evaluation e = *asked;
    int64_t dim[SPARTA_RANK];
    SP_TRY(list_picks(scratch, a, &e));
    sparta_tensor *in = sp_arena_array(scratch, (size_t)SP_MAX(n->n_in, 1), sizeof *in);
    SP_NEED(p->cx, in);
    for (int i = 0; i < n->n_in; i++) {
        in[i] = (sparta_tensor){.rank = -1};
        if (n->in[i] && a->in[i].role == SP_SIDE) in[i] = *n->in[i]->constant;
        if (n->in[i] && a->in[i].role != SP_SIDE) SP_TRY(input_of(p, a, &e, i, scratch, &in[i]));
    }
    for (int i = 0; i < n->n_out; i++) {
        (void)run_dims(a, &e, &a->out[i], n->out[i], dim);
        SP_TRY(sp_tensor_alloc_in(p->arena, n->out[i]->dtype, n->out[i]->dims.rank, dim, &out[i]));
    }
    sparta_status status = sp_builtin_run(p->cx, n->op, &(sp_op_args){&n->attrs, n->n_in, n->n_out, in, out});
    if (status == SPARTA_E_MEMORY || status == SPARTA_E_CANCELLED) return status;
    if (status != SPARTA_OK)
        sp_ctx_clear(p->cx); /* it cannot be said beforehand; the model's own run will tell */
    *ran = status == SPARTA_OK;
    return SPARTA_OK;
}

sparta_status sp_evaluate(sp_propagation *p, const sp_axes *a, const sp_evaluation *e, sparta_tensor *out,
                          bool *ran)
{
    *ran = false;
    if (!sp_evaluable(a, e)) return SPARTA_OK;
    if (!sp_spend(p, work_of(a, e)) && !e->only) return SPARTA_OK; /* what was agreed on is not given up */
    sp_arena *scratch = sp_arena_create(p->cx);
    SP_NEED(p->cx, scratch);
    sparta_status status = run_on(p, a, e, scratch, out, ran);
    sp_arena_free(scratch);
    return status;
}
