/* The order of things: axes, known, needed, agreement, the smaller graph; again until nothing changes. */
#include "propagate/facts.h"
#include <string.h>

void sparta_propagation_free(sparta_propagation *p)
{
    if (!p) return;
    sparta_arena_free(p->arena);
    sparta_free(p->cx, p);
}

static sparta_status describe(sparta_propagation *p)
{
    sparta_graph *g = p->g;
    p->axes = sparta_arena_array(p->arena, (size_t)SPARTA_MAX(g->n_nodes, 1), sizeof *p->axes);
    p->fact = sparta_arena_array(p->arena, (size_t)SPARTA_MAX(g->n_values, 1), sizeof *p->fact);
    SPARTA_NEED(p->cx, p->axes && p->fact);
    p->n_values = g->n_values;
    for (int i = 0; i < g->n_nodes; i++) SPARTA_TRY(sparta_axes_of(g, g->node[i], p->arena, &p->axes[i]));
    SPARTA_TRY(sparta_graph_users(g, p->arena, &p->users));
    return sparta_precisions(p);
}

static sparta_status forward(sparta_propagation *p)
{
    const sparta_graph *g = p->g;
    for (int i = 0; i < g->n_inputs; i++)
        SPARTA_TRY(sparta_cells_one(p, SPARTA_UNKNOWN, &sparta_fact_of(p, g->input[i])->state));
    for (int i = 0; i < g->n_nodes; i++) {
        SPARTA_TRY(sparta_check_cancel(p->cx));
        for (int k = 0; k < g->node[i]->n_in; k++) {
            const sparta_value *v = g->node[i]->in[k];
            if (v && v->constant && !sparta_fact_of(p, v)->state.at) SPARTA_TRY(sparta_known_constant(p, v));
        }
        SPARTA_TRY(sparta_known_node(p, i));
    }
    return SPARTA_OK;
}

static sparta_status backward(sparta_propagation *p)
{
    const sparta_graph *g = p->g;
    for (int i = 0; i < g->n_outputs; i++)
        SPARTA_TRY(sparta_cells_one(p, 1, &sparta_fact_of(p, g->output[i])->need));
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        SPARTA_TRY(sparta_check_cancel(p->cx));
        SPARTA_TRY(sparta_needed_node(p, i));
    }
    return SPARTA_OK;
}

static sparta_effort full_effort(const sparta_ctx *cx, const sparta_propagate_options *options)
{
    const size_t held = sparta_ctx_memory(cx), most = sparta_ctx_budget(cx);
    const double share = options && options->effort > 0 ? options->effort : 1;
    const double room = most > held ? (double)(most - held) / 2 : 0;
    return (sparta_effort){.steps = share * SPARTA_STEPS,
                           .visits = share * SPARTA_VISITS,
                           .share = share,
                           .room = room,
                           .bytes = room};
}

static sparta_status find_facts(sparta_graph *g, const sparta_propagate_options *options,
                                sparta_effort *effort, sparta_propagation **out)
{
    sparta_propagation *p = sparta_zalloc(g->cx, sizeof *p);
    SPARTA_NEED(g->cx, p);
    *p = (sparta_propagation){.g = g,
                              .cx = g->cx,
                              .options = options,
                              .own = full_effort(g->cx, options),
                              .strict = sparta_ctx_strict(g->cx)};
    p->effort = effort ? effort : &p->own;
    p->arena = sparta_arena_create(g->cx);
    sparta_status status = p->arena ? describe(p) : sparta_ctx_status(g->cx);
    if (status == SPARTA_OK) status = forward(p);
    if (status == SPARTA_OK) status = backward(p);
    if (status != SPARTA_OK) {
        if (p->arena)
            sparta_propagation_free(p);
        else
            sparta_free(g->cx, p);
        return status;
    }
    *out = p;
    return SPARTA_OK;
}

sparta_status sparta_propagate_facts(sparta_graph *g, const sparta_propagate_options *options,
                                     sparta_propagation **out)
{
    return find_facts(g, options, NULL, out);
}

bool sparta_propagation_known(const sparta_propagation *p, const sparta_value *v, const int64_t *index,
                              double *value)
{
    const sparta_fact *f = sparta_fact_of(p, v);
    if (!f->state.at) return false;
    const uint8_t state = sparta_cells_get(&f->state, v->dims.rank, index);
    *value = state == SPARTA_SOME ? sparta_element_get(v->dtype, f->value.data,
                                                       sparta_cell_at(v->dims.rank, f->value.dim, index))
                                  : 0;
    return state != SPARTA_UNKNOWN;
}

bool sparta_propagation_needed(const sparta_propagation *p, const sparta_value *v, const int64_t *index)
{
    const sparta_fact *f = sparta_fact_of(p, v);
    return !f->need.at || sparta_cells_get(&f->need, v->dims.rank, index);
}

/* ------------------------------------------------------------------ rounds */
/* One round; what is blocked is said by the last one. */
static sparta_status round_of(sparta_graph *g, const sparta_propagate_options *options, sparta_effort *effort,
                              sparta_reporting *report, bool *changed)
{
    sparta_propagation *p;
    bool cancelled;
    *changed = false;
    SPARTA_TRY(sparta_tidy(g)); /* in every round: what was in its way may be gone */
    SPARTA_TRY(sparta_cancel_pairs(g, &cancelled));
    effort->bytes = effort->room =
        full_effort(g->cx, options).bytes; /* those of the last round are free again */
    SPARTA_TRY(sparta_keep_once(g));       /* of what was folded before */
    SPARTA_TRY(find_facts(g, options, effort, &p));
    sparta_status status = sparta_fold_values(p, changed);
    if (status == SPARTA_OK && *changed)
        status = sparta_ops_infer(g);
    else if (status == SPARTA_OK) {
        status = sparta_agree(p);
        if (status == SPARTA_OK) status = sparta_report_blocked(p, report);
        if (status == SPARTA_OK) status = sparta_compact(p, changed);
        report->report.moved += p->moved;
    }
    sparta_propagation_free(p);
    *changed |= cancelled;
    return status;
}

sparta_status sparta_propagate(sparta_graph *g, const sparta_propagate_options *options,
                               sparta_propagate_report *out)
{
    sparta_reporting report = {0};
    bool changed = true;
    const int n_values = g->n_values;
    SPARTA_TRY(sparta_report_begin(g, &report));
    for (int i = 0; options && i < options->n_remove; i++)
        SPARTA_TRY(sparta_propagate_remove(g, options->remove[i]));
    if (options && options->n_remove) SPARTA_TRY(sparta_ops_infer(g));
    SPARTA_TRY(sparta_report_requests(g, n_values, &report));
    int rounds = 0;
    sparta_effort effort = full_effort(g->cx, options);
    for (; changed && rounds < SPARTA_ROUNDS; rounds++)
        SPARTA_TRY(round_of(g, options, &effort, &report, &changed));
    if (changed) effort.spent |= SPARTA_SPENT_ROUNDS;
    report.report.rounds = rounds;
    SPARTA_TRY(sparta_report_end(g, &effort, &report));
    *out = report.report;
    return sparta_graph_verify(g);
}
