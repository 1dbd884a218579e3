/* layers: what is said of each layer, of a plan or of a graph that was not compiled, without running or timing anything. */
#include "compile/lower.h"
#include <stdio.h>
#include <string.h>

static void set_block(sp_layer *out)
{
    if (strchr(out->pattern, 'x')) snprintf(out->block, sizeof out->block, "%.15s", out->pattern);
}

/* From the annotations of a plan. */
static sparta_status from_plan(sparta_ctx *cx, const sp_graph *g, const sp_node *n, sp_layer *out)
{
    sp_task t = {.node = n};
    SP_TRY(sp_lower_most_tokens(cx, g, n->in[0], &t.tokens));
    out->tokens = sp_lower_tokens(&t);
    snprintf(out->implement, sizeof out->implement, "%s", sp_attr_string(&n->attrs, "implement", "builtin"));
    snprintf(out->pattern, sizeof out->pattern, "%s",
             sp_attr_string(&n->attrs, "pattern", sp_node_is_fused(n) ? "dense" : "none"));
    snprintf(out->reason, sizeof out->reason, "%s", sp_attr_string(&n->attrs, "reason", ""));
    snprintf(out->source, sizeof out->source, "%s", sp_attr_string(&n->attrs, "source", ""));
    out->format = sp_attr_string(&n->attrs, "format", NULL);
    out->density = sp_attr_float(&n->attrs, "density", 1);
    out->us = sp_attr_float(&n->attrs, "us", 0);
    out->dense_us = sp_attr_float(&n->attrs, "dense_us", 0);
    return SPARTA_OK;
}

static double known_us(sp_recall *recall, const lower_node *ln, const sp_implement *im)
{
    char code[40];
    if (sp_recall_code(recall->cx, &ln->task, im, sp_target_best(SP_DEVICE_CPU), code) != SPARTA_OK) return 0;
    return sp_recall_us(recall, im, ln->task.point, code, NULL);
}

/* Every point of one row; false: the database lacks one. */
static bool predict_row(sparta_ctx *cx, sp_recall *recall, lower_node *ln, const sp_implement *im, bool model)
{
    bool known = true;
    for (int k = 0; im->kernel && im->format && k < sp_implement_points(im); k++) {
        if (!sp_implement_point(im, k, &ln->task) || !sp_implement_matches(im, &ln->task)) continue;
        const double us = model ? sp_lower_modelled(&ln->task, im) : known_us(recall, ln, im);
        known &= us > 0;
        sp_lower_try(cx, ln, im, us);
    }
    return known;
}

/* By the database where every candidate was measured, else by the cost model. */
static sparta_status predict(sparta_ctx *cx, sp_tune_db *db, lower_node *ln)
{
    bool known = true;
    const bool product = ln->task.mask && sp_implement_tokens(ln->node->in[0]);
    sp_recall recall = {0};
    const sp_bed_request bed = sp_lower_bed(ln, NULL);
    if (product) SP_TRY(sp_recall_open(cx, db, &bed, sp_target_best(SP_DEVICE_CPU), &recall));
    for (int pass = 0; pass < 2; pass++) {
        ln->us = ln->sparse_us = ln->dense_us = 0;
        ln->im = NULL;
        for (int i = 0; i < sp_implement_count() && product; i++)
            known &= predict_row(cx, &recall, ln, sp_implement_row(i), pass == 1);
        memcpy(ln->task.point, ln->point, sizeof ln->point);
        snprintf(ln->source, sizeof ln->source, "%s", !ln->im ? "" : pass == 0 ? "database" : "model");
        if (known) break;
    }
    if (product) sp_recall_close(&recall);
    if (ln->pin && !ln->im) snprintf(ln->task.point, sizeof ln->task.point, "%s", ln->pin->point);
    if (ln->pin && !(ln->im && sp_lower_meets(ln->pin, ln->im))) ln->im = ln->pin->implement;
    for (int i = 0; i < sp_implement_count() && !ln->im; i++)
        if (sp_implement_matches(sp_implement_row(i), &ln->task)) ln->im = sp_implement_row(i);
    sp_lower_reason(ln, 0);
    return SPARTA_OK;
}

/* The text of the format in which an implement would store the weight. */
static sparta_status set_format(sparta_ctx *cx, sp_arena *arena, const lower_node *ln, sp_layer *out)
{
    sp_text text;
    if (!ln->im->format || !ln->task.mask) return SPARTA_OK;
    sp_text_init(&text, cx);
    sp_implement_print_format(ln->im, &ln->task, &text);
    out->format = sp_text_keep(&text, arena);
    SP_NEED(cx, out->format);
    return SPARTA_OK;
}

typedef struct survey { /* what the layers of a graph are predicted from */
    sparta_ctx *cx;
    sp_arena *arena;
    const sp_graph *g;
    sp_tune_db *db;
    const sp_obeyed *obeyed;
    const bool *stats;
} survey;

/* What compile would take for a node, as far as it can be known without building or timing anything. The mask is the caller's to free. */
static sparta_status foresee(const survey *v, sp_node *n, lower_node *out)
{
    out->node = n;
    SP_TRY(sp_lower_task(v->cx, v->g, n, sp_target_best(SP_DEVICE_CPU), out));
    SP_TRY(sp_lower_pin(v->cx, v->obeyed, n, &out->pin));
    SP_TRY(sp_lower_asked(v->cx, out, sp_target_best(SP_DEVICE_CPU), v->obeyed ? v->obeyed->limit : 0));
    out->task.stat = v->stats[n->out[0]->id];
    return predict(v->cx, v->db, out);
}

static sparta_status from_graph(const survey *v, sp_node *n, sp_layer *out)
{
    sparta_ctx *cx = v->cx;
    lower_node ln = {0};
    sparta_status s = foresee(v, n, &ln);
    if (s == SPARTA_OK) {
        snprintf(out->implement, sizeof out->implement, "%s", ln.im->name);
        snprintf(out->pattern, sizeof out->pattern, "%s", ln.task.mask ? ln.task.pattern.name : "none");
        snprintf(out->reason, sizeof out->reason, "%s", ln.reason);
        snprintf(out->source, sizeof out->source, "%s", ln.source);
        out->density = ln.task.mask ? ln.task.pattern.density : 1;
        out->us = ln.us;
        out->tokens = sp_lower_tokens(&ln.task);
        out->dense_us = ln.dense_us;
        s = set_format(cx, v->arena, &ln, out);
    }
    sp_lower_forget(cx, &ln);
    return s;
}

static sparta_status estimate(const survey *v, lowering *l)
{
    l->node = sp_arena_array(l->arena, (size_t)v->g->n_nodes + 1, sizeof *l->node);
    SP_NEED(v->cx, l->node);
    l->n_nodes = v->g->n_nodes;
    for (int i = 0; i < l->n_nodes; i++) {
        lower_node *ln = &l->node[i];
        SP_TRY(sp_check_cancel(v->cx));
        const sparta_status s = foresee(v, v->g->node[i], ln);
        sp_lower_forget(v->cx, ln);
        SP_TRY(s);
    }
    SP_TRY(sp_compile_usual_sizes(v->cx, l->arena, v->g, &l->sizes));
    return sp_lower_settle(l);
}

sparta_status sp_compile_sum(sparta_ctx *cx, sp_graph *g, const char *db_path, const sp_obeyed *obeyed,
                             double *us)
{
    sp_tune_db *db = NULL;
    lowering l = {.cx = cx, .g = g, .arena = sp_arena_create(cx)};
    SP_NEED(cx, l.arena);
    const bool *stats = sp_lower_stats(l.arena, g);
    sparta_status s = stats ? sp_tune_open(cx, db_path, &db) : sp_ctx_status(cx);
    if (s == SPARTA_OK) s = estimate(&(survey){cx, l.arena, g, db, obeyed, stats}, &l);
    if (s == SPARTA_OK) *us = l.us;
    sp_tune_close(db);
    sp_arena_free(l.arena);
    return s;
}

sparta_status sp_compile_layers(sparta_ctx *cx, sp_arena *arena, const sp_graph *g, const char *db_path,
                                const sp_obeyed *obeyed, sp_layer **out, int *n)
{
    sp_layer *layer = sp_arena_array(arena, (size_t)g->n_nodes + 1, sizeof *layer);
    sp_tune_db *db = NULL;
    int count = 0;
    const bool *stats = sp_lower_stats(arena, g);
    SP_NEED(cx, layer && stats);
    SP_TRY(sp_tune_open(cx, db_path, &db));
    sparta_status s = SPARTA_OK;
    for (int i = 0; i < g->n_nodes && s == SPARTA_OK; i++) {
        sp_node *node = g->node[i];
        if (!sp_node_is_product(node)) continue;
        sp_layer *l = &layer[count++];
        l->name = *node->name ? node->name : node->out[0]->name;
        l->op = sp_builtin_row(node->op)->name;
        l->dtype = node->out[0]->dtype;
        bool turned;
        if (sp_node_is_fused(node) && sp_node_takes_matrix(node, &turned)) {
            sp_expr_is_const(node->in[1]->dims.dim[turned], &l->n);
            sp_expr_is_const(node->in[1]->dims.dim[!turned], &l->k);
        }
        /* in a plan what a reference runs has a reason */
        if (sp_attr_find(&node->attrs, "kernel") || sp_attr_find(&node->attrs, "reason"))
            s = from_plan(cx, g, node, l);
        else
            s = from_graph(&(survey){cx, arena, g, db, obeyed, stats}, node, l);
        set_block(l);
    }
    sp_tune_close(db);
    SP_TRY(s);
    *out = layer;
    *n = count;
    return SPARTA_OK;
}
