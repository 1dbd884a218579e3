/* The order of things: axes, known, needed, agreement, the smaller graph; again until nothing changes. */
#include "propagate/facts.h"
#include <string.h>

void sp_propagation_free(sp_propagation *p)
{
    if (!p) return;
    sp_arena_free(p->arena);
    sp_free(p->cx, p);
}

static sparta_status describe(sp_propagation *p)
{
    sp_graph *g = p->g;
    p->axes = sp_arena_array(p->arena, (size_t)SP_MAX(g->n_nodes, 1), sizeof *p->axes);
    p->fact = sp_arena_array(p->arena, (size_t)SP_MAX(g->n_values, 1), sizeof *p->fact);
    SP_NEED(p->cx, p->axes && p->fact);
    p->n_values = g->n_values;
    for (int i = 0; i < g->n_nodes; i++) SP_TRY(sp_axes_of(g, g->node[i], p->arena, &p->axes[i]));
    SP_TRY(sp_graph_users(g, p->arena, &p->users));
    return sp_precisions(p);
}

static sparta_status forward(sp_propagation *p)
{
    const sp_graph *g = p->g;
    for (int i = 0; i < g->n_inputs; i++)
        SP_TRY(sp_cells_one(p->arena, SP_UNKNOWN, &sp_fact_of(p, g->input[i])->tesa.state));
    for (int i = 0; i < g->n_nodes; i++) {
        SP_TRY(sp_check_cancel(p->cx));
        for (int k = 0; k < g->node[i]->n_in; k++) {
            const sp_value *v = g->node[i]->in[k];
            if (v && v->constant && !sp_fact_of(p, v)->tesa.state.at) SP_TRY(sp_known_constant(p, v));
        }
        SP_TRY(sp_known_node(p, i));
    }
    return SPARTA_OK;
}

static sparta_status backward(sp_propagation *p)
{
    const sp_graph *g = p->g;
    for (int i = 0; i < g->n_outputs; i++)
        SP_TRY(sp_cells_one(p->arena, 1, &sp_fact_of(p, g->output[i])->need));
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        SP_TRY(sp_check_cancel(p->cx));
        SP_TRY(sp_needed_node(p, i));
    }
    return SPARTA_OK;
}

static sp_effort full_effort(const sparta_ctx *cx, const sp_propagate_options *options)
{
    const size_t held = sp_ctx_memory(cx), most = sp_ctx_budget(cx);
    const double share = options && options->effort > 0 ? options->effort : 1;
    const double room = most > held ? (double)(most - held) / 2 : 0;
    return (sp_effort){
        .steps = share * SP_STEPS, .visits = share * SP_VISITS, .share = share, .room = room, .bytes = room};
}

static sparta_status find_facts(sp_graph *g, const sp_propagate_options *options, sp_effort *effort,
                                sp_propagation **out)
{
    sp_propagation *p = sp_zalloc(g->cx, sizeof *p);
    SP_NEED(g->cx, p);
    *p = (sp_propagation){.g = g,
                          .cx = g->cx,
                          .options = options,
                          .own = full_effort(g->cx, options),
                          .strict = sp_ctx_strict(g->cx)};
    p->effort = effort ? effort : &p->own;
    p->arena = sp_arena_create(g->cx);
    sparta_status status = p->arena ? describe(p) : sp_ctx_status(g->cx);
    if (status == SPARTA_OK) status = forward(p);
    if (status == SPARTA_OK) status = backward(p);
    if (status != SPARTA_OK) {
        if (p->arena)
            sp_propagation_free(p);
        else
            sp_free(g->cx, p);
        return status;
    }
    *out = p;
    return SPARTA_OK;
}

sparta_status sp_propagate_facts(sp_graph *g, const sp_propagate_options *options, sp_propagation **out)
{
    return find_facts(g, options, NULL, out);
}

const sp_tesa *sp_propagation_tesa(const sp_propagation *p, const sp_value *v)
{
    return &sp_fact_of(p, v)->tesa;
}

/* ------------------------------------------------------------------ rounds */
/* One round; what is blocked is said by the last one. */
static sparta_status round_of(sp_graph *g, const sp_propagate_options *options, sp_effort *effort,
                              sp_reporting *report, bool *changed)
{
    sp_propagation *p;
    bool cancelled;
    *changed = false;
    SP_TRY(sp_tidy(g)); /* in every round: what was in its way may be gone */
    SP_TRY(sp_cancel_round_trips(g, &cancelled));
    /* Bytes of the last round are free again. */
    effort->bytes = effort->room = full_effort(g->cx, options).bytes;
    SP_TRY(sp_keep_once(g)); /* of what was folded before */
    SP_TRY(find_facts(g, options, effort, &p));
    sparta_status status = sp_fold_values(p, changed);
    if (status == SPARTA_OK && *changed)
        status = sp_ops_infer(g);
    else if (status == SPARTA_OK) {
        status = sp_agree(p);
        if (status == SPARTA_OK) status = sp_report_blocked(p, report);
        if (status == SPARTA_OK) status = sp_compact(p, changed);
        report->report.moved += p->moved;
    }
    sp_propagation_free(p);
    *changed |= cancelled;
    return status;
}

sparta_status sp_propagate(sp_graph *g, const sp_propagate_options *options, sp_propagate_report *out)
{
    sp_reporting report = {0};
    bool changed = true;
    const int n_values = g->n_values;
    SP_TRY(sp_report_begin(g, &report));
    for (int i = 0; options && i < options->n_remove; i++) SP_TRY(sp_propagate_remove(g, options->remove[i]));
    if (options && options->n_remove) SP_TRY(sp_ops_infer(g));
    SP_TRY(sp_report_requests(g, n_values, &report));
    int rounds = 0;
    sp_effort effort = full_effort(g->cx, options);
    for (; changed && rounds < SP_ROUNDS; rounds++) SP_TRY(round_of(g, options, &effort, &report, &changed));
    if (changed) effort.spent |= SP_SPENT_ROUNDS;
    report.report.rounds = rounds;
    SP_TRY(sp_report_end(g, &effort, &report));
    *out = report.report;
    return sp_graph_verify(g);
}
