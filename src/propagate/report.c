/* What went, what stayed, and who holds it, in words a user can act on:
 *
 *     layer3.0.conv3.weight keeps 256 zero outputs of 1024, because 'layer3.0.downsample.0.weight' needs them: prune both alike
 *
 * Counts are here; who holds them is found in explain.c. */
#include "propagate/facts.h"
#include <string.h>

/* A transposed copy of a weight counts with that. */
static int64_t parameters(const sp_graph *g, const bool *used, const sp_value *v)
{
    bool counts = v->constant && (sp_dtype_is_float(v->dtype) || sparta_dtype_size(v->dtype) == 1) &&
                  v->dtype != SPARTA_BOOL;
    return counts && !sp_tied(g, used, v) ? sparta_tensor_elements(v->constant) : 0;
}

/* Constants that a node uses, once each. */
static sparta_status each_constant(sp_graph *g, sp_value ***out, int *n)
{
    bool *seen = sp_arena_array(g->arena, (size_t)SP_MAX(g->n_values, 1), sizeof *seen);
    *out = sp_arena_array(g->arena, (size_t)SP_MAX(g->n_values, 1), sizeof **out);
    SP_NEED(g->cx, seen && *out);
    *n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++) {
            sp_value *v = g->node[i]->in[k];
            if (!v || !v->constant || seen[v->id]) continue;
            seen[v->id] = true;
            (*out)[(*n)++] = v;
        }
    return SPARTA_OK;
}

static void add_tensor(sp_reporting *r, sp_value *v)
{
    sp_kept *k = &r->report.tensor[r->report.n];
    r->value[r->report.n++] = v;
    *k = (sp_kept){.name = sp_initialiser_name(v), .rank = v->constant->rank, .blocked_by = ""};
    memcpy(k->before, v->constant->dim, sizeof k->before);
}

sparta_status sp_report_begin(sp_graph *g, sp_reporting *r)
{
    sp_value **all;
    bool *used;
    int n;
    SP_TRY(each_constant(g, &all, &n));
    SP_TRY(sp_used(g, g->arena, &used));
    r->report.tensor = sp_arena_array(g->arena, (size_t)SP_MAX(n, 1), sizeof *r->report.tensor);
    SP_NEED(g->cx, r->report.tensor);
    r->value = all;
    r->report.nodes_before = g->n_nodes;
    for (int i = 0; i < n; i++) {
        const int64_t count = parameters(g, used, all[i]);
        r->report.parameters_before += count;
        if (count && all[i]->constant->rank) add_tensor(r, all[i]);
    }
    r->weights = r->report.n;
    return SPARTA_OK;
}

sparta_status sp_propagate_nothing(sp_graph *g, sp_propagate_report *out)
{
    sp_reporting r = {0};
    SP_TRY(sp_report_begin(g, &r));
    const sp_propagate_report *b = &r.report;
    *out = (sp_propagate_report){.parameters_before = b->parameters_before,
                                 .parameters_after = b->parameters_before,
                                 .nodes_before = b->nodes_before,
                                 .nodes_after = b->nodes_before,
                                 .cut_short = ""};
    return SPARTA_OK;
}

sparta_status sp_report_requests(sp_graph *g, int n_values, sp_reporting *r)
{
    const size_t n = (size_t)(r->weights + g->n_values - n_values);
    sp_kept *tensor = sp_arena_array(g->arena, SP_MAX(n, 1), sizeof *tensor);
    sp_value **value = sp_arena_array(g->arena, SP_MAX(n, 1), sizeof(sp_value *));
    bool *used;
    SP_NEED(g->cx, tensor && value);
    SP_TRY(sp_used(g, g->arena, &used));
    for (int i = 0; i < r->weights; i++) {
        tensor[i] = r->report.tensor[i];
        value[i] = r->value[i];
    }
    r->report.tensor = tensor;
    r->value = value;
    for (int i = n_values; i < g->n_values; i++)
        if (parameters(g, used, g->value[i]) && g->value[i]->constant->rank) add_tensor(r, g->value[i]);
    return SPARTA_OK;
}

/* A request that was obeyed has left nothing behind; one that could not be keeps its mask, which is no parameter. */
static void end_requests(sp_graph *g, const bool *used, sp_reporting *r)
{
    int n = r->weights;
    for (int i = r->weights; i < r->report.n; i++)
        if (!r->report.tensor[i].gone) r->report.parameters_after -= parameters(g, used, r->value[i]);
    for (int i = r->weights; i < r->report.n; i++) {
        if (r->report.tensor[i].gone || !*r->report.tensor[i].blocked_by) continue;
        r->report.tensor[n] = r->report.tensor[i];
        r->value[n++] = r->value[i];
    }
    r->report.n = n;
}

/* What ran out first, in words, and what helps. The rest was unknown, needed, and stays. */
static sparta_status tell_effort(sp_graph *g, const sp_effort *e, sp_propagate_report *r)
{
    static const char again[] = "`sparta_propagate_file` on what it wrote begins anew";
    const struct {
        unsigned what;
        double number;
        const char *unit, *advice;
    } row[] = {
        {SP_SPENT_STEPS, e->share * SP_STEPS * 1e-6, "million steps", again},
        {SP_SPENT_VISITS, e->share * SP_VISITS * 1e-6, "million indices", again},
        {SP_SPENT_ROUNDS, SP_ROUNDS, "rounds", again},
        {SP_SPENT_BYTES, e->room * 1e-6, "MB of facts", "give it more with options.max_memory"},
    };
    r->cut_short = "";
    for (size_t i = 0; i < SP_COUNT(row) && !*r->cut_short; i++) {
        if (!(e->spent & row[i].what)) continue;
        r->cut_short = sp_arena_printf(
            g->arena, "looked at no more after %.4g %s: what is left counts as needed, and stays; %s",
            row[i].number, row[i].unit, row[i].advice);
        SP_NEED(g->cx, r->cut_short);
    }
    return SPARTA_OK;
}

sparta_status sp_report_end(sp_graph *g, const sp_effort *effort, sp_reporting *r)
{
    sp_value **all;
    int n;
    SP_TRY(tell_effort(g, effort, &r->report));
    bool *used;
    SP_TRY(each_constant(g, &all, &n));
    SP_TRY(sp_used(g, g->arena, &used));
    for (int i = 0; i < n; i++) r->report.parameters_after += parameters(g, used, all[i]);
    for (int i = 0; i < r->report.n; i++) {
        sp_kept *k = &r->report.tensor[i];
        k->gone = !used[r->value[i]->id];
        if (!k->gone) memcpy(k->after, r->value[i]->constant->dim, sizeof k->after);
    }
    end_requests(g, used, r);
    r->report.nodes_after = g->n_nodes;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ what stays */
/* User i of a value, the one before it being another: it has all slots of a node behind each other. */
static bool is_new(const sp_users *u, const sp_value *v, int i)
{
    return i == u->first[v->id] || u->user[i] != u->user[i - 1];
}

/* Which end of its layer an axis of a weight is, as its users call it. */
static const char *kind_of(const sp_explainer *e, const sp_value *v, int axis)
{
    if (v->dims.rank == 1) return "channels";
    for (int i = e->p->users.first[v->id]; i < e->p->users.first[v->id + 1]; i++) {
        const sp_axes *a = &e->p->axes[e->p->users.user[i]];
        if (!is_new(&e->p->users, v, i) || !sp_look(e, a->n->n_in)) continue;
        if (a->n->op == SP_OP_Gather) return axis ? "columns" : "rows";
        for (int k = 0; k < a->n->n_in; k++) {
            const sp_axis *x = &a->in[k].axis[axis];
            if (a->n->in[k] != v || a->how != SP_FLOW_PRODUCT || !x->n) continue;
            return a->label[x->label[x->n - 1]].kind == SP_SUM ? "inputs" : "outputs";
        }
    }
    return "slices";
}

/* Do zeros of it make anything zero? Those of a bias do not, and tables of angles have some that nobody pruned. */
static bool counts(const sp_explainer *e, const sp_value *v)
{
    for (int i = e->p->users.first[v->id]; i < e->p->users.first[v->id + 1]; i++) {
        const sp_axes *a = &e->p->axes[e->p->users.user[i]];
        if (!is_new(&e->p->users, v, i) || !sp_look(e, a->n->n_in)) continue;
        for (int k = 0; k < a->n->n_in; k++) {
            if (a->n->in[k] != v || a->in[k].role == SP_SIDE) continue;
            const bool wins = a->how == SP_FLOW_PRODUCT && a->in[k].role == SP_FACTOR;
            if (wins || a->how == SP_FLOW_MOVE || a->in[k].hides[false]) return true;
            if (a->n->op == SP_OP_DequantizeLinear && k == 0) return true;
        }
    }
    return false;
}

static sparta_status blocked(const sp_explainer *e, const sp_value *v, bool mask, sp_text *t)
{
    const sp_fact *f = sp_fact_of(e->p, v);
    if (!counts(e, v)) return SPARTA_OK;
    for (int k = 0; k < v->dims.rank; k++) {
        const int64_t size = sp_axis_size(v, k);
        int64_t stay = 0;
        for (int64_t i = 0; f->wanted[k] && i < size; i++) stay += f->wanted[k][i] && !f->gone[k][i];
        if (!stay || !f->cause[k].node || stay == size) continue;
        const char *kind = !mask ? kind_of(e, v, k) : v->dims.rank == 4 && k == 1 ? "heads" : "columns";
        const int letters = (int)strlen(kind) - (stay == 1); /* one output, two outputs */
        sp_text_printf(t, "%skeeps %lld zero %.*s of %lld", t->size ? "; " : "", (long long)stay, letters,
                       kind, (long long)size);
        sp_tell_place(e, v, t);
        sp_text_printf(t, ", because ");
        sp_explain(e, v, k, !strcmp(kind, "inputs"), t);
    }
    return t->status;
}

#define LOOKS ((int64_t)1 << 24) /* a hostile model has many who hold, and many to ask */

sparta_status sp_report_blocked(const sp_propagation *p, sp_reporting *r)
{
    int64_t looks = LOOKS;
    const sp_explainer e = {p, &looks};
    for (int i = 0; i < r->report.n; i++) {
        sp_text t;
        sp_text_init(&t, p->cx);
        r->report.tensor[i].blocked_by = "";
        sparta_status status = SPARTA_OK;
        if (r->value[i]->constant && sp_fact_of(p, r->value[i])->tesa.state.at)
            status = blocked(&e, r->value[i], i >= r->weights, &t);
        if (status == SPARTA_OK && t.size) {
            r->report.tensor[i].blocked_by = sp_arena_string(p->g->arena, sp_text_str(&t));
            if (!r->report.tensor[i].blocked_by) status = sp_ctx_status(p->cx);
        }
        sp_text_free(&t);
        SP_TRY(status);
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ what is known, as a file */
static sparta_status list_made(const sp_propagation *p, sp_arena *arena, const char ***name,
                               const sp_tesa ***tesa, int *n)
{
    const sp_graph *g = p->g;
    *n = 0;
    *name = sp_arena_array(arena, (size_t)SP_MAX(g->n_values, 1), sizeof **name);
    *tesa = sp_arena_array(arena, (size_t)SP_MAX(g->n_values, 1), sizeof **tesa);
    SP_NEED(p->cx, *name && *tesa);
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_out; k++, (*n)++) {
            (*name)[*n] = g->node[i]->out[k]->name;
            (*tesa)[*n] = sp_propagation_tesa(p, g->node[i]->out[k]);
        }
    return SPARTA_OK;
}

sparta_status sp_propagation_write(const sp_propagation *p, const char *path)
{
    const char **name;
    const sp_tesa **tesa;
    int n;
    sp_arena *arena = sp_arena_create(p->cx);
    SP_NEED(p->cx, arena);
    sparta_status status = list_made(p, arena, &name, &tesa, &n);
    if (!status) status = sp_tesa_write(p->cx, path, n, name, tesa);
    sp_arena_free(arena);
    return status;
}
