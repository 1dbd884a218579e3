/* What went, what stayed, and who holds it, in words a user can act on:
 *
 *     layer3.0.conv3.weight: 32 of its 64 dead outputs stay, because layer3.0.downsample.0.weight needs them: prune both alike
 */
#include "propagate/facts.h"
#include <string.h>

static const char *name_of(const sparta_value *v)
{
    return v->origin ? v->origin : v->name;
}

/* A transposed copy of a weight counts with that. */
static int64_t parameters(const sparta_graph *g, const sparta_value *v)
{
    bool counts = v->constant && (sparta_dtype_is_float(v->dtype) || sparta_dtype_size(v->dtype) == 1) &&
                  v->dtype != SPARTA_BOOL;
    return counts && !sparta_tied(g, v) ? sparta_tensor_elements(v->constant) : 0;
}

/* Constants that a node uses, once each. */
static sparta_status each_constant(sparta_graph *g, sparta_value ***out, int *n)
{
    bool *seen = sparta_arena_array(g->arena, (size_t)SPARTA_MAX(g->n_values, 1), sizeof *seen);
    *out = sparta_arena_array(g->arena, (size_t)SPARTA_MAX(g->n_values, 1), sizeof **out);
    SPARTA_NEED(g->cx, seen && *out);
    *n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++) {
            sparta_value *v = g->node[i]->in[k];
            if (!v || !v->constant || seen[v->id]) continue;
            seen[v->id] = true;
            (*out)[(*n)++] = v;
        }
    return SPARTA_OK;
}

sparta_status sparta_report_begin(sparta_graph *g, sparta_reporting *r)
{
    sparta_value **all;
    int n;
    SPARTA_TRY(each_constant(g, &all, &n));
    r->report.tensor = sparta_arena_array(g->arena, (size_t)SPARTA_MAX(n, 1), sizeof *r->report.tensor);
    SPARTA_NEED(g->cx, r->report.tensor);
    r->value = all;
    r->report.nodes_before = g->n_nodes;
    for (int i = 0; i < n; i++) {
        const int64_t count = parameters(g, all[i]);
        r->report.parameters_before += count;
        if (!count || !all[i]->constant->rank) continue;
        sparta_kept *k = &r->report.tensor[r->report.n];
        r->value[r->report.n++] = all[i];
        *k = (sparta_kept){.name = name_of(all[i]), .rank = all[i]->constant->rank, .blocked_by = ""};
        memcpy(k->before, all[i]->constant->dim, sizeof k->before);
    }
    return SPARTA_OK;
}

sparta_status sparta_report_end(sparta_graph *g, sparta_reporting *r)
{
    sparta_value **all;
    int n;
    SPARTA_TRY(each_constant(g, &all, &n));
    bool *used = sparta_arena_array(g->arena, (size_t)SPARTA_MAX(g->n_values, 1), sizeof *used);
    SPARTA_NEED(g->cx, used);
    for (int i = 0; i < n; i++) {
        r->report.parameters_after += parameters(g, all[i]);
        used[all[i]->id] = true;
    }
    for (int i = 0; i < r->report.n; i++) {
        sparta_kept *k = &r->report.tensor[i];
        k->gone = !used[r->value[i]->id];
        if (!k->gone) memcpy(k->after, r->value[i]->constant->dim, sizeof k->after);
    }
    r->report.nodes_after = g->n_nodes;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ who holds it */
/* The weight of the layer that makes a value, past biases, normalisations, activations and residuals; NULL: another operator does. */
static const sparta_value *maker(const sparta_value *v)
{
    for (int steps = 0; v->producer && steps < 8; steps++) {
        const sparta_node *n = v->producer;
        const sparta_value *data = NULL, *weight = NULL;
        bool alone = true;
        for (int i = 0; i < n->n_in; i++) {
            if (n->in[i] && n->in[i]->constant && n->in[i]->constant->rank >= 2) weight = n->in[i];
            if (!n->in[i] || n->in[i]->constant) continue;
            alone &= !data || data == n->in[i];
            data = data ? data : n->in[i];
        }
        if (weight) return weight;
        if (!data || n->n_in > 5 || (!alone && n->op != SPARTA_OP_Add)) return NULL;
        v = data;
    }
    return v->constant ? v : NULL;
}

/* The last of a chain of causes: this value keeps them. `about` is the weight that is asked for. */
static void explain_keeper(const sparta_value *v, const sparta_value *about, sparta_text *t)
{
    const sparta_value *weight = maker(v);
    if (v->is_output)
        sparta_text_printf(t, "'%s' is an output of the model", v->name);
    else if (v->is_input)
        sparta_text_printf(t, "'%s' is an input of the model", v->name);
    else if (weight && weight != about)
        sparta_text_printf(t, "'%s' needs them: prune both alike", name_of(weight));
    else
        sparta_text_printf(t, "'%s' has them too, and is not known beforehand",
                           v->constant ? name_of(v) : v->name);
}

/* Follow the causes from one axis to the next until somebody has a reason of their own. */
static void explain(const sparta_propagation *p, const sparta_value *about, const sparta_cause *c,
                    sparta_text *t)
{
    for (int steps = 0; steps < p->g->n_nodes + 1; steps++) {
        if (c->why) {
            sparta_text_printf(t, "%s '%s': %s", sparta_builtin_row(c->node->op)->name, c->node->name,
                               c->why);
            return;
        }
        const sparta_fact *f = sparta_fact_of(p, c->value);
        const sparta_cause *next = &f->cause[c->axis];
        bool wanted = f->wanted[c->axis] && f->wanted[c->axis][c->other];
        if (!wanted || !next->node || c->value->constant) {
            explain_keeper(c->value, about, t);
            return;
        }
        c = next;
    }
    sparta_text_printf(t, "'%s' needs them", c->value->name);
}

/* Which end of its layer an axis of a weight is. */
static const char *kind_of(const sparta_propagation *p, const sparta_value *v, int axis)
{
    for (int i = 0; i < p->g->n_nodes; i++) {
        const sparta_axes *a = &p->axes[i];
        for (int k = 0; k < a->n->n_in; k++) {
            if (a->n->in[k] != v || a->how != SPARTA_FLOW_PRODUCT || !a->in[k].axis[axis].n) continue;
            return a->label[a->in[k].axis[axis].label[a->in[k].axis[axis].n - 1]].kind == SPARTA_SUM
                       ? "inputs"
                       : "outputs";
        }
    }
    return "slices";
}

static sparta_status blocked(const sparta_propagation *p, const sparta_value *v, sparta_text *t)
{
    const sparta_fact *f = sparta_fact_of(p, v);
    for (int k = 0; k < v->dims.rank; k++) {
        int64_t dead = 0, stay = 0, size = sparta_axis_size(v, k);
        for (int64_t i = 0; f->wanted[k] && i < size; i++) {
            dead += f->wanted[k][i];
            stay += f->wanted[k][i] && !f->gone[k][i];
        }
        if (!stay || !f->cause[k].node || stay == size) continue;
        sparta_text_printf(t, "%s%lld of its %lld dead %s stay, because ", t->size ? "; " : "",
                           (long long)stay, (long long)dead, kind_of(p, v, k));
        explain(p, v, &f->cause[k], t);
    }
    return t->status;
}

sparta_status sparta_report_blocked(const sparta_propagation *p, sparta_reporting *r)
{
    for (int i = 0; i < r->report.n; i++) {
        sparta_text t;
        sparta_text_init(&t, p->cx);
        r->report.tensor[i].blocked_by = "";
        sparta_status status = SPARTA_OK;
        if (r->value[i]->constant && sparta_fact_of(p, r->value[i])->state.at)
            status = blocked(p, r->value[i], &t);
        if (status == SPARTA_OK && t.size) {
            r->report.tensor[i].blocked_by = sparta_arena_string(p->g->arena, sparta_text_str(&t));
            if (!r->report.tensor[i].blocked_by) status = sparta_ctx_status(p->cx);
        }
        sparta_text_free(&t);
        SPARTA_TRY(status);
    }
    return SPARTA_OK;
}
