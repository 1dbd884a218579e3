/* Constants find their place: summands that go move into a bias, values that are known altogether become initialisers, adding
 * nothing and multiplying by one go. */
#include "propagate/facts.h"
#include <string.h>

/* ------------------------------------------------------------------ summands */
static int cuttable_sums(const sp_axes *a)
{
    int n = 0;
    for (int l = 0; l < a->labels; l++) n += a->label[l].kind == SP_SUM && !a->label[l].why;
    return n;
}

/* Do the factors differ along nothing but summed labels and the bias's axis? */
static bool alike_elsewhere(sp_propagation *p, const sp_axes *a)
{
    bool vary[SP_SPACES] = {false}, allowed[SP_SPACES] = {false};
    const sp_axis *x = &a->out[0].axis[a->bias_axis];
    for (int j = 0; j < x->n; j++) allowed[x->label[j]] = true;
    for (int l = 0; l < a->labels; l++) allowed[l] |= a->label[l].kind == SP_SUM;
    for (int i = 0; i < a->n->n_in; i++) {
        if (a->in[i].role != SP_FACTOR && a->in[i].role != SP_ARG) continue;
        sp_fact_vary(a, i, sp_fact_of(p, a->n->in[i]), vary);
    }
    for (int l = 0; l < SP_SPACES; l++)
        if (vary[l] && !allowed[l]) return false;
    return true;
}

/* The run that adds up constants of a summed label: one result for each index of the bias's axis. */
static sp_evaluation adding_up(const sp_propagation *p, const sp_axes *a, int label, const uint8_t *only)
{
    sp_evaluation e = {.products = true, .label = label, .only = only};
    for (int i = 0; i < a->n->n_in; i++) {
        if (a->in[i].role != SP_FACTOR && a->in[i].role != SP_ARG) continue;
        sp_fact_vary(a, i, sp_fact_of(p, a->n->in[i]), e.vary);
    }
    const sp_axis *x = &a->out[0].axis[a->bias_axis];
    for (int j = 0; j < x->n; j++) e.vary[x->label[j]] = true;
    return e;
}

/* Can constants of this label go into a bias? */
static bool foldable(sp_propagation *p, const sp_axes *a, int label)
{
    if (a->bias_axis < 0 || a->no_values || cuttable_sums(a) != 1 || !alike_elsewhere(p, a)) return false;
    sp_evaluation e = adding_up(p, a, label, NULL);
    return sp_evaluable(a, &e);
}

/* Where the output is needed, or known: what is known must stay so. Of two factors that are zero in the same place neither is needed
 * there, because of the other. */
static sparta_status held_cells(const sp_propagation *p, const sp_value *v, sp_cells *out)
{
    const sp_fact *f = sp_fact_of(p, v);
    const int64_t n = sp_cells_count(v->dims.rank, f->tesa.state.extent);
    sp_cells known;
    *out = f->need;
    if (n < 0 || !sp_room(p, n, 1)) return sp_cells_one(p->arena, 1, out);
    SP_TRY(sp_cells_new(p->arena, v->dims.rank, f->tesa.state.extent, &known));
    for (int64_t i = 0; i < n; i++) known.at[i] = !(f->tesa.state.at[i] & 1);
    return sp_cells_add(p, v->dims.rank, out, &known);
}

#define SUMMANDS 0x1p31 /* steps: always as many, for it is asked twice and must say the same */

static void take_steps(const sp_propagation *p, double steps)
{
    p->effort->steps -= steps;
    if (steps >= SUMMANDS) p->effort->spent |= SP_SPENT_STEPS;
}

sparta_status sp_summands(sp_propagation *p, const sp_axes *a, int label, uint8_t *out)
{
    const sp_node *n = a->n;
    int64_t size = a->label[label].size, stride[SP_SPACES] = {0};
    sp_cells_view factor[8];
    int which[8], factors = 0;
    const bool wins = sp_zero_wins(p, a);
    stride[label] = 1;
    memset(out, 0, (size_t)size);
    if (n->n_out != 1) return SPARTA_OK;
    sp_cells_view need = sp_view_of(a, &a->out[0], n->out[0], &sp_fact_of(p, n->out[0])->need, false, 1);
    for (int i = 0; i < n->n_in; i++) {
        if (a->in[i].role != SP_FACTOR) continue;
        if (factors == 6) return SPARTA_OK;
        which[factors] = i;
        factor[factors++] =
            sp_view_of(a, &a->in[i], n->in[i], &sp_fact_of(p, n->in[i])->tesa.state, true, SP_SOME);
    }
    uint8_t *unknown = sp_arena_alloc(p->arena, (size_t)SP_MAX(size, 1)),
            *some = sp_arena_alloc(p->arena, (size_t)SP_MAX(size, 1));
    SP_NEED(p->cx, unknown && some);
    for (int i = 0; i < n->n_in; i++) {
        sp_cells_view view[8] = {need};
        int k = 1;
        if (a->in[i].role != SP_FACTOR && a->in[i].role != SP_ARG) continue;
        view[k++] = sp_view_of(a, &a->in[i], n->in[i], &sp_fact_of(p, n->in[i])->tesa.state, true, 1);
        for (int j = 0; j < factors && wins; j++)
            if (which[j] != i) view[k++] = factor[j];
        take_steps(p, sp_contract(a, view, k, unknown, stride, 1, SUMMANDS));
    }
    sp_cells held;
    SP_TRY(held_cells(p, n->out[0], &held));
    sp_cells_view all[8] = {sp_view_of(a, &a->out[0], n->out[0], &held, false, 1)};
    memcpy(all + 1, factor, (size_t)factors * sizeof *factor);
    take_steps(p, sp_contract(a, all, factors + 1, some, stride, 1, SUMMANDS));
    bool fold = foldable(p, a, label);
    for (int64_t i = 0; i < size; i++) out[i] = unknown[i] ? 0 : !some[i] ? 1 : fold ? 2 : 0;
    return SPARTA_OK;
}

sparta_status sp_fold_summands(sp_propagation *p, const sp_axes *a, sparta_tensor *out)
{
    *out = (sparta_tensor){.rank = 0};
    for (int l = 0; l < a->labels; l++) {
        uint8_t *kept[SP_LABELS], *only;
        bool some = false, constants = false, ran;
        int64_t size = a->label[l].size;
        if (a->label[l].kind != SP_SUM || a->how != SP_FLOW_PRODUCT || a->label[l].why || size < 1 ||
            a->bias_axis < 0)
            continue;
        SP_TRY(sp_labels_left(p, a, kept));
        for (int64_t i = 0; kept[l] && i < size; i++) some |= !kept[l][i];
        if (!some) continue;
        only = sp_arena_alloc(p->arena, (size_t)size);
        SP_NEED(p->cx, only);
        SP_TRY(sp_summands(p, a, l, only));
        for (int64_t i = 0; i < size; i++) {
            only[i] = only[i] == 2 && !kept[l][i];
            constants |= only[i];
        }
        if (!constants) continue;
        sp_evaluation e = adding_up(p, a, l, only);
        sparta_tensor run;
        SP_TRY(sp_evaluate(p, a, &e, &run, &ran));
        if (!ran)
            return sp_fail(
                p->cx, SPARTA_E_INTERNAL,
                "propagate: node '%.200s': constants that were to go into a bias could not be added up",
                a->n->name);
        int64_t rows = sp_axis_size(a->n->out[0], a->bias_axis), step = 1;
        SP_TRY(sp_tensor_alloc_in(p->arena, run.dtype, 1, &rows, out));
        for (int k = run.rank - 1; k > a->bias_axis; k--) step *= run.dim[k];
        size_t bytes = sparta_dtype_size(run.dtype);
        for (int64_t i = 0; i < rows; i++)
            memcpy((char *)out->data + (size_t)i * bytes, (char *)run.data + (size_t)(i * step) * bytes,
                   bytes);
        return SPARTA_OK;
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ whole values */
#define WHOLE_BYTES ((size_t)16 << 20) /* a larger constant is not worth writing out */
#define OWN_BYTES   4096 /* up to this each user has its own, of which it may lose what others need */

static bool is_all(const sp_propagation *p, const sp_value *v, double x)
{
    const sp_fact *f = sp_fact_of(p, v);
    const int rank = v->dims.rank;
    if (!f->tesa.state.at || sp_cells_has(&f->tesa.state, rank, 1)) return false;
    if (x == 0) return !sp_cells_has(&f->tesa.state, rank, SP_SOME);
    if (!sp_cells_all(&f->tesa.state, rank, SP_SOME)) return false;
    const int64_t n = sparta_tensor_elements(&f->tesa.value);
    for (int64_t i = 0; i < n; i++)
        if (sp_element_get(v->dtype, f->tesa.value.data, i) != x) return false;
    return true;
}

static bool is_known(const sp_propagation *p, const sp_value *v)
{
    const sp_fact *f = sp_fact_of(p, v);
    if (!f->tesa.state.at || v->constant || v->is_input || v->is_output || !v->producer ||
        sp_ops_keeps(v->producer))
        return false;
    if (sp_tesa_precision(sp_propagation_tesa(p, v), NULL) != sp_precision_of(v->dtype))
        return false; /* a weight that is dequantised and then moved stays narrow in the file */
    return sp_cells_count(v->dims.rank, f->tesa.state.extent) &&
           !sp_cells_has(&f->tesa.state, v->dims.rank, 1);
}

/* Does node n give its input `x` when its input `with` is `number` everywhere? */
typedef struct bypass_rule {
    sp_op_id op;
    int x, with, number;
} bypass_rule;

static const bypass_rule bypasses[] = {
    {SP_OP_Add, 0, 1, 0}, {SP_OP_Add, 1, 0, 0}, {SP_OP_Sub, 0, 1, 0},   {SP_OP_Mul, 0, 1, 1},
    {SP_OP_Mul, 1, 0, 1}, {SP_OP_Div, 0, 1, 1}, {SP_OP_And, 0, 1, 1},   {SP_OP_And, 1, 0, 1},
    {SP_OP_Or, 0, 1, 0},  {SP_OP_Or, 1, 0, 0},  {SP_OP_Where, 1, 0, 1}, {SP_OP_Where, 2, 0, 0},
};

/* x + 0, x * 1, Where of nothing but true: the result is x where the other operands do not widen it. */
static bool bypass(sp_propagation *p, int at)
{
    sp_graph *g = p->g;
    sp_node *n = g->node[at];
    if (p->strict && (n->op == SP_OP_Add || n->op == SP_OP_Sub))
        return false; /* -0 + 0 is 0, and what divides by it can tell */
    for (size_t i = 0; i < SP_COUNT(bypasses); i++) {
        const bypass_rule *rule = &bypasses[i];
        if (rule->op != n->op) continue;
        sp_value *x = n->in[rule->x], *y = n->out[0];
        if (!is_all(p, n->in[rule->with], rule->number) || !sp_dims_equal(&x->dims, &y->dims)) continue;
        if (y->is_output && (x->is_input || x->constant || x->is_output)) continue;
        sp_graph_replace(g, &p->users, y, x);
        return true;
    }
    return false;
}

/* The constant with the value's dims, or with 1 where they are symbols. */
static sparta_status materialise(sp_propagation *p, const sp_value *v, bool full, sp_value **out)
{
    const sp_fact *f = sp_fact_of(p, v);
    int64_t dim[SPARTA_RANK], index[SPARTA_RANK] = {0};
    size_t bytes, size = sparta_dtype_size(v->dtype);
    sparta_tensor t;
    *out = NULL;
    for (int i = 0; i < v->dims.rank; i++) dim[i] = full ? sp_axis_size(v, i) : f->tesa.state.extent[i];
    if (sp_tensor_bytes(p->cx, v->dtype, v->dims.rank, dim, &bytes) != SPARTA_OK) {
        sp_ctx_clear(p->cx);
        return SPARTA_OK;
    }
    if (bytes > WHOLE_BYTES || !sp_room(p, 1, bytes)) return SPARTA_OK;
    SP_TRY(sp_tensor_alloc_in(p->g->arena, v->dtype, v->dims.rank, dim, &t));
    int64_t n = sparta_tensor_elements(&t);
    for (int64_t k = 0; k < n; k++) {
        const int64_t c = sp_cell_at(v->dims.rank, f->tesa.state.extent, index);
        if (f->tesa.state.at[c] && f->tesa.value.data)
            memcpy((char *)t.data + (size_t)k * size, (const char *)f->tesa.value.data + (size_t)c * size,
                   size);
        for (int d = v->dims.rank - 1; d >= 0 && ++index[d] == dim[d]; d--) index[d] = 0;
    }
    return sp_graph_add_constant(p->g, NULL, &t, false, out);
}

/* PRelu broadcasts its slope alone. Of a hostile node's thousands of inputs each would ask all others. */
bool sp_may_broadcast(const sp_axes *a, int i, const sp_value *v)
{
    if (a->n->op == SP_OP_PRelu && i == 0) return false;
    if (!a->broadcasts || a->n->n_in > 64) return false;
    for (int k = 0; k < a->n->n_in; k++)
        if (k != i && a->n->in[k] && a->n->in[k] != v &&
            sp_dims_equal(&a->n->in[k]->dims, &a->n->out[0]->dims))
            return true;
    return false;
}

/* shared[2 * id + full]: a constant that was made for this value and is large. */
static sparta_status replace_known(sp_propagation *p, int at, sp_value **shared, bool *changed)
{
    sp_node *n = p->g->node[at];
    for (int i = 0; i < n->n_in; i++) {
        sp_value *v = n->in[i], *by = NULL;
        int64_t dim[SPARTA_RANK];
        if (!v || !is_known(p, v)) continue;
        bool full = sp_dims_const(&v->dims, dim);
        if (!full && !sp_may_broadcast(&p->axes[at], i, v)) continue;
        if (sp_may_broadcast(&p->axes[at], i, v)) full = false;
        sp_value **other = &shared[2 * v->id + full];
        by = *other;
        if (!by) SP_TRY(materialise(p, v, full, &by));
        if (!by) continue;
        if (sparta_tensor_elements(by->constant) * (int64_t)sparta_dtype_size(by->dtype) > OWN_BYTES)
            *other = by;
        n->in[i] = by;
        *changed = true;
    }
    return SPARTA_OK;
}

sparta_status sp_fold_values(sp_propagation *p, bool *changed)
{
    sp_value **shared = sp_arena_array(p->arena, 2 * (size_t)SP_MAX(p->n_values, 1), sizeof(sp_value *));
    SP_NEED(p->cx, shared);
    for (int at = 0; at < p->g->n_nodes; at++) {
        if (bypass(p, at)) {
            *changed = true;
            continue;
        }
        SP_TRY(replace_known(p, at, shared, changed));
    }
    return SPARTA_OK;
}
