/* layers: what is said of each layer, of a plan or of a graph that was not compiled, without running or timing anything. */
#include "compile/lower.h"
#include <stdio.h>
#include <string.h>

bool sparta_lower_is_layer(const sparta_node *n)
{
    return n->op == SPARTA_OP_Linear || n->op == SPARTA_OP_Attention || n->op == SPARTA_OP_MatMul ||
           n->op == SPARTA_OP_Gemm || n->op == SPARTA_OP_Interact || n->op == SPARTA_OP_Conv ||
           n->op == SPARTA_OP_ConvTranspose;
}

static void set_block(sparta_layer *out)
{
    if (strchr(out->pattern, 'x')) snprintf(out->block, sizeof out->block, "%.15s", out->pattern);
}

/* From the annotations of a plan. */
static sparta_status from_plan(sparta_ctx *cx, const sparta_graph *g, const sparta_node *n, sparta_layer *out)
{
    sparta_task t = {.node = n};
    SPARTA_TRY(sparta_lower_most_tokens(cx, g, n->in[0], &t.tokens));
    out->tokens = sparta_lower_tokens(&t);
    snprintf(out->implement, sizeof out->implement, "%s",
             sparta_attr_string(&n->attrs, "implement", "builtin"));
    snprintf(out->pattern, sizeof out->pattern, "%s",
             sparta_attr_string(&n->attrs, "pattern", n->op == SPARTA_OP_Linear ? "dense" : "none"));
    snprintf(out->reason, sizeof out->reason, "%s", sparta_attr_string(&n->attrs, "reason", ""));
    snprintf(out->source, sizeof out->source, "%s", sparta_attr_string(&n->attrs, "source", ""));
    out->format = sparta_attr_string(&n->attrs, "format", NULL);
    out->density = sparta_attr_float(&n->attrs, "density", 1);
    out->us = sparta_attr_float(&n->attrs, "us", 0);
    out->dense_us = sparta_attr_float(&n->attrs, "dense_us", 0);
    return SPARTA_OK;
}

static double known_us(sparta_ctx *cx, sparta_tune_db *db, const lower_node *ln, const sparta_implement *im)
{
    sparta_text key;
    sparta_trial trial;
    sparta_text_init(&key, cx);
    sparta_lower_key(ln, im, sparta_target_best(), &key);
    const double us =
        key.status == SPARTA_OK && sparta_tune_find(db, sparta_text_str(&key), &trial, 1) > 0 ? trial.us : 0;
    sparta_text_free(&key);
    return us;
}

/* Every setting of one row; false: the database lacks one. */
static bool predict_row(sparta_ctx *cx, sparta_tune_db *db, lower_node *ln, const sparta_implement *im,
                        bool model)
{
    bool known = true;
    for (int k = 0; im->kernel && im->format && k < sparta_implement_settings(im); k++) {
        ln->task.setting = k;
        if (!im->match(&ln->task)) continue;
        const double us = model ? sparta_lower_modelled(&ln->task, im) : known_us(cx, db, ln, im);
        known &= us > 0;
        sparta_lower_try(cx, ln, im, us);
    }
    return known;
}

/* By the database where every candidate was measured, else by the cost model. */
static void predict(sparta_ctx *cx, sparta_tune_db *db, lower_node *ln)
{
    bool known = true;
    for (int pass = 0; pass < 2; pass++) {
        ln->us = ln->sparse_us = ln->dense_us = 0;
        ln->im = NULL;
        for (int i = 0; i < sparta_implement_count() && ln->task.mask; i++)
            known &= predict_row(cx, db, ln, sparta_implement_row(i), pass == 1);
        ln->task.setting = ln->setting;
        snprintf(ln->source, sizeof ln->source, "%s", !ln->im ? "" : pass == 0 ? "database" : "model");
        if (known) break;
    }
    if (ln->pin) ln->im = ln->pin->implement;
    for (int i = 0; i < sparta_implement_count() && !ln->im; i++)
        if (sparta_implement_row(i)->match(&ln->task)) ln->im = sparta_implement_row(i);
    sparta_lower_reason(ln, 0);
}

/* The text of the format in which an implement would store the weight. */
static sparta_status set_format(sparta_ctx *cx, sparta_arena *arena, const lower_node *ln, sparta_layer *out)
{
    sparta_text text;
    if (!ln->im->format || !ln->task.mask) return SPARTA_OK;
    sparta_text_init(&text, cx);
    ln->im->format(&ln->task, &text);
    sparta_status s = text.status;
    if (s == SPARTA_OK && !(out->format = sparta_arena_string(arena, sparta_text_str(&text))))
        s = sparta_ctx_status(cx);
    sparta_text_free(&text);
    return s;
}

typedef struct survey { /* what the layers of a graph are predicted from */
    sparta_ctx *cx;
    sparta_arena *arena;
    const sparta_graph *g;
    sparta_tune_db *db;
    const sparta_obeyed *obeyed;
    const bool *stats;
} survey;

/* What compile would take for a node, as far as it can be known without building or timing anything. The mask is the caller's to free. */
static sparta_status foresee(const survey *v, sparta_node *n, lower_node *out)
{
    out->node = n;
    SPARTA_TRY(sparta_lower_task(v->cx, v->g, n, out));
    SPARTA_TRY(sparta_lower_pin(v->cx, v->obeyed, n, &out->pin));
    SPARTA_TRY(sparta_lower_asked(v->cx, out, v->obeyed ? v->obeyed->limit : 0));
    out->task.stat = v->stats[n->out[0]->id];
    out->task.library = sparta_implement_library(sparta_target_best());
    predict(v->cx, v->db, out);
    return SPARTA_OK;
}

static sparta_status from_graph(const survey *v, sparta_node *n, sparta_layer *out)
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
        out->tokens = sparta_lower_tokens(&ln.task);
        out->dense_us = ln.dense_us;
        s = set_format(cx, v->arena, &ln, out);
    }
    sparta_mask_free(cx, &ln.mask);
    return s;
}

static sparta_status estimate(const survey *v, lowering *l)
{
    l->node = sparta_arena_array(l->arena, (size_t)v->g->n_nodes + 1, sizeof *l->node);
    SPARTA_NEED(v->cx, l->node);
    l->n_nodes = v->g->n_nodes;
    for (int i = 0; i < l->n_nodes; i++) {
        lower_node *ln = &l->node[i];
        SPARTA_TRY(sparta_check_cancel(v->cx));
        const sparta_status s = foresee(v, v->g->node[i], ln);
        sparta_mask_free(v->cx, &ln->mask);
        ln->task.mask = NULL;
        SPARTA_TRY(s);
    }
    return sparta_lower_sum(l);
}

sparta_status sparta_compile_sum(sparta_ctx *cx, sparta_graph *g, const char *db_path,
                                 const sparta_obeyed *obeyed, double *us)
{
    sparta_tune_db *db = NULL;
    lowering l = {.cx = cx, .g = g, .arena = sparta_arena_create(cx)};
    SPARTA_NEED(cx, l.arena);
    const bool *stats = sparta_lower_stats(l.arena, g);
    sparta_status s = stats ? sparta_tune_open(cx, db_path, &db) : sparta_ctx_status(cx);
    if (s == SPARTA_OK) s = estimate(&(survey){cx, l.arena, g, db, obeyed, stats}, &l);
    if (s == SPARTA_OK) *us = l.us;
    sparta_tune_close(db);
    sparta_arena_free(l.arena);
    return s;
}

sparta_status sparta_compile_layers(sparta_ctx *cx, sparta_arena *arena, const sparta_graph *g,
                                    const char *db_path, const sparta_obeyed *obeyed, sparta_layer **out,
                                    int *n)
{
    sparta_layer *layer = sparta_arena_array(arena, (size_t)g->n_nodes + 1, sizeof *layer);
    sparta_tune_db *db = NULL;
    int count = 0;
    const bool *stats = sparta_lower_stats(arena, g);
    SPARTA_NEED(cx, layer && stats);
    SPARTA_TRY(sparta_tune_open(cx, db_path, &db));
    sparta_status s = SPARTA_OK;
    for (int i = 0; i < g->n_nodes && s == SPARTA_OK; i++) {
        sparta_node *node = g->node[i];
        if (!sparta_lower_is_layer(node)) continue;
        sparta_layer *l = &layer[count++];
        l->name = *node->name ? node->name : node->out[0]->name;
        l->op = sparta_builtin_row(node->op)->name;
        l->dtype = node->out[0]->dtype;
        if (node->op == SPARTA_OP_Linear) {
            const int turned = sparta_attr_int(&node->attrs, "transposed", 0) == 0;
            sparta_expr_is_const(node->in[1]->dims.dim[turned], &l->n);
            sparta_expr_is_const(node->in[1]->dims.dim[!turned], &l->k);
        }
        if (sparta_attr_find(&node->attrs, "kernel"))
            s = from_plan(cx, g, node, l);
        else
            s = from_graph(&(survey){cx, arena, g, db, obeyed, stats}, node, l);
        set_block(l);
    }
    sparta_tune_close(db);
    SPARTA_TRY(s);
    *out = layer;
    *n = count;
    return SPARTA_OK;
}
