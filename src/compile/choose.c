/* choose: which implements could run each node, and how fast: the fastest in each layout. Products hold a contest each
 * (contest.c); other nodes one for all that are alike, where there is a choice; settle.c then takes one of the two. */
#include "compile/lower.h"
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ what is no product */

/* Is there a choice, and can it be timed in a moment? */
static sparta_status worth_timing(const lowering *l, const lower_node *ln, bool *out)
{
    enum { ELEMENTS = 1 << 22, MOST_US = 50000 };
    const sp_bed_request bed = sp_lower_bed(ln, &l->sizes);
    double elements = 0;
    *out = false;
    if (l->no_measure || ln->node->n_out != 1 || ln->node->n_in > SP_OPERANDS) return SPARTA_OK;
    for (int i = -1; i < ln->node->n_in; i++) {
        const sp_value *v = i < 0 ? ln->node->out[0] : ln->node->in[i];
        int rank;
        int64_t dim[SPARTA_RANK];
        double n = 1;
        if (!v || v->constant) continue;
        const sparta_status s = sp_bed_shape(l->cx, &bed, v, &rank, dim);
        if (s == SPARTA_E_MEMORY || s == SPARTA_E_CANCELLED) return s;
        if (s != SPARTA_OK) { /* sizes are not known, or overflow */
            sp_ctx_clear(l->cx);
            return SPARTA_OK;
        }
        for (int d = 0; d < rank; d++) n *= (double)dim[d];
        if (n < 1) return SPARTA_OK;
        elements += n;
    }
    *out = elements <= ELEMENTS &&
           (ln->task.each || sp_compile_estimate_node(l->cx, ln->node, &l->sizes) <= MOST_US);
    return SPARTA_OK;
}

static const lower_way *first_in_lanes(const lower_node *ln)
{
    static const lower_way none;
    for (int i = 0; i < SP_LAYOUTS; i++)
        if (sp_layout_has_lanes((sp_layout)i) && ln->way[i].im) return &ln->way[i];
    return &none;
}

/* Nodes of one task take what the first of them took. */
static sparta_status choose_other(lowering *l, lower_node *ln)
{
    const sp_bed_request bed = sp_lower_bed(ln, &l->sizes);
    sp_text key;
    int64_t at = 0;
    bool worth;
    SP_TRY(worth_timing(l, ln, &worth));
    if (!worth) return SPARTA_OK;
    sp_text_init(&key, l->cx);
    sparta_status s = sp_recall_key(l->cx, &bed, l->target[SP_DEVICE_CPU], false, &key);
    if (s == SPARTA_OK && sp_map_get(l->alike, sp_text_str(&key), &at)) {
        memcpy(ln->way, l->node[at].way, sizeof ln->way);
        ln->dense_us = l->node[at].dense_us, ln->sparse_us = l->node[at].sparse_us;
    } else if (s == SPARTA_OK) {
        const char *kept = sp_arena_string(l->arena, sp_text_str(&key));
        s = kept ? sp_lower_contest(l, ln) : sp_ctx_status(l->cx);
        if (s == SPARTA_OK) s = sp_map_put(l->alike, kept, ln - l->node);
    }
    sp_text_free(&key);
    const lower_way *way = first_in_lanes(ln); /* settle.c weighs all */
    ln->im = way->im;
    ln->us = way->us;
    memcpy(ln->point, way->point, sizeof ln->point);
    ln->tried = false;
    if (!sp_implement_listed(ln->node, NULL, NULL) && !(ln->task.present > 0))
        ln->sparse_us = ln->dense_us = 0; /* no reason has them */
    ln->source[0] = 0;
    if (s == SPARTA_OK || s == SPARTA_E_MEMORY || s == SPARTA_E_CANCELLED) return s;
    sp_note(l->cx, "%s: it was not timed: %s", ln->node->name, sparta_message(l->cx));
    sp_ctx_clear(l->cx);
    return SPARTA_OK;
}

static bool is_product(const lower_node *ln)
{
    return ln->task.mask && sp_implement_tokens(ln->node->in[0]);
}

/* The kernels that the node needs, or that compete for it. */
static sparta_status want(lowering *l, const lower_node *ln)
{
    const sp_implement *first = sp_lower_first(&ln->task, l->request->options.dense_only);
    bool contest = is_product(ln);
    int kernel;
    if (!contest && first->kernel) SP_TRY(worth_timing(l, ln, &contest));
    return contest ? sp_lower_enlist(l, ln) : sp_lower_want(l, first, &ln->task, &kernel);
}

/* The task of a node, what a schedule says of it, and its kernels. What fails with them fails again when they are needed, and is told there; what is
 * chosen by the model is compiled when it is. */
static sparta_status look(lowering *l, lower_node *ln, bool stat)
{
    SP_TRY(sp_lower_task(l->cx, l->g, ln->node, l->target[SP_DEVICE_CPU], ln));
    ln->task.stat = stat;
    SP_TRY(sp_lower_pin(l->cx, l->request->obeyed, ln->node, &ln->pin));
    SP_TRY(sp_lower_asked(l->cx, ln, l->target[SP_DEVICE_CPU], l->request->options.limit));
    const sparta_status s = l->no_measure ? SPARTA_OK : want(l, ln);
    if (s == SPARTA_OK || s == SPARTA_E_MEMORY || s == SPARTA_E_CANCELLED) return s;
    sp_ctx_clear(l->cx);
    return SPARTA_OK;
}

static sparta_status choose(lowering *l, lower_node *ln)
{
    const bool dense = l->request->options.dense_only;
    if (is_product(ln))
        SP_TRY(sp_lower_contest(l, ln));
    else if (sp_lower_first(&ln->task, dense)->kernel)
        SP_TRY(choose_other(l, ln));
    if (ln->pin && (!ln->im || !sp_lower_meets(ln->pin, ln->im))) return sp_lower_pin_failed(l->cx, ln);
    if (dense && (sp_implement_listed(ln->node, NULL, NULL) || ln->task.present > 0))
        ln->sparse = LOWER_FORBIDDEN;
    if (!ln->im)
        ln->im = ln->way[SP_LAYOUT_ROWS].im ? ln->way[SP_LAYOUT_ROWS].im : sp_lower_first(&ln->task, dense);
    sp_lower_reason(ln, l->peak);
    return SPARTA_OK;
}

bool *sp_lower_stats(sp_arena *arena, const sp_graph *g)
{
    bool *wanted = sp_arena_array(arena, (size_t)g->n_values + 1, sizeof *wanted);
    for (int i = 0; wanted && i < g->n_nodes; i++) {
        const sp_node *n = g->node[i];
        const sp_node *from = n->n_in && n->in[0] ? n->in[0]->producer : NULL;
        const sp_task t = {.node = n};
        if (from && sp_node_is_fused(from) && from->out[0] == n->in[0] &&
            (sp_implement_matches(&sp_implement_norm, &t) || sp_implement_matches(&sp_implement_rms, &t)))
            wanted[n->in[0]->id] = true;
    }
    return wanted;
}

/* ------------------------------------------------------------------ conversions */

/* What to_lanes and to_rows take for an element, by the bed: one value of 256 features. */
static sparta_status time_conversions(lowering *l)
{
    sp_graph *g;
    sp_value *x, *y = NULL;
    sp_node *n;
    sp_dims dims = {.rank = 2};
    SP_TRY(sp_graph_create(l->cx, "conversion", &g));
    dims.dim[0] = sp_expr_const(g->arena, LOWER_TOKENS);
    dims.dim[1] = sp_expr_const(g->arena, 256);
    sparta_status s =
        dims.dim[0] && dims.dim[1] ? sp_graph_add_input(g, "x", SPARTA_F32, &dims, &x) : sp_ctx_status(l->cx);
    if (s == SPARTA_OK)
        s = sp_graph_add_node(g, SP_OP_Identity, "conversion", 1, &x, 1, &y, &(sp_attrs){0}, &n);
    if (s == SPARTA_OK) {
        lower_node ln = {.node = n, .kernel = -1};
        y->dtype = SPARTA_F32;
        y->dims = x->dims;
        y->typed = true;
        s = sp_implement_task(l->cx, n, l->target[SP_DEVICE_CPU], 0, &ln.task);
        ln.task.conversion = true;
        if (s == SPARTA_OK) s = sp_lower_contest(l, &ln);
        for (int to = 0; to < SP_LAYOUTS && s == SPARTA_OK; to++)
            l->convert_us[to] = ln.way[to].us / (LOWER_TOKENS * 256);
    }
    sp_graph_free(g);
    return s;
}

/* Is there a node that could lie in rows or in lanes? */
static bool has_choice(const lowering *l)
{
    for (int i = 0; i < l->n_nodes; i++)
        if (l->node[i].way[SP_LAYOUT_ROWS].im && first_in_lanes(&l->node[i])->im) return true;
    return false;
}

sparta_status sp_lower_choose(lowering *l)
{
    const sp_graph *g = l->g;
    l->node = sp_arena_array(l->arena, (size_t)g->n_nodes + 1, sizeof *l->node);
    const bool *stats = sp_lower_stats(l->arena, g);
    if (!l->node || !stats) return sp_ctx_status(l->cx);
    l->n_nodes = g->n_nodes;
    SP_TRY(sp_compile_usual_sizes(l->cx, l->arena, g, &l->sizes));
    l->alike = sp_map_create(l->cx);
    SP_NEED(l->cx, l->alike);
    if (!l->no_measure) l->peak = sp_peak_flops(l->target[SP_DEVICE_CPU], 1, .02);
    for (int i = 0; i < g->n_nodes; i++) {
        SP_TRY(sp_check_cancel(l->cx));
        l->node[i].node = g->node[i];
        SP_TRY(look(l, &l->node[i], stats[g->node[i]->out[0]->id]));
    }
    const int before = l->request->chosen ? *l->request->chosen : 0, all = before + g->n_nodes;
    if (l->n_kernels) sp_compile_tell(&l->request->options, before, all, "compiling kernels");
    SP_TRY(sp_lower_build(l));
    for (int i = 0; i < g->n_nodes; i++) {
        SP_TRY(sp_check_cancel(l->cx));
        SP_TRY(choose(l, &l->node[i]));
        sp_compile_tell(&l->request->options, before + i + 1, all, g->node[i]->name);
    }
    if (l->request->chosen) *l->request->chosen = all;
    if (!l->no_measure && has_choice(l)) SP_TRY(time_conversions(l));
    return sp_lower_pins_used(l->cx, l->request->obeyed);
}
