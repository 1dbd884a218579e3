/* The driver: import, obey, infer, passes, choose, layout, pack, verify. */
#include "compile/lower.h"
#include "ops/ops.h"
#include "run/run.h"
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ dims: "name=4" fixes a symbol, "name=1:8:32" bounds it */

typedef struct said_dim {
    char name[64];
    int64_t least, most;
    bool fixed;
} said_dim;

static sparta_status parse_dim(sparta_ctx *cx, const char *text, said_dim *out)
{
    const char *eq = strchr(text, '='), *p;
    int64_t v[3] = {0};
    int n = 0;
    if (!eq || eq == text || eq - text >= (long)sizeof out->name)
        return sp_fail(cx, SPARTA_E_USAGE, "options.dims %s: expected NAME=N or NAME=MIN:OPT:MAX", text);
    memcpy(out->name, text, (size_t)(eq - text));
    out->name[eq - text] = 0;
    for (p = eq; *p && n < 3; n++) {
        char word[24];
        const size_t length = strcspn(++p, ":");
        snprintf(word, sizeof word, "%.*s", (int)SP_MIN(length, sizeof word - 1), p);
        const bool number = sp_parse_int(word, &v[n]);
        if (number && v[n] == 0)
            return sp_fail(
                cx, SPARTA_E_USAGE,
                "options.dims %s: compiled for a size of 0 there is nothing to compute; leave the symbol "
                "open, then run takes 0 too",
                text);
        if (!number || v[n] < 1)
            return sp_fail(cx, SPARTA_E_USAGE,
                           "options.dims %s: '%s' is not a size; give a number of at least 1", text, word);
        p += length;
    }
    if (*p || (n != 1 && n != 3) || (n == 3 && (v[0] > v[1] || v[1] > v[2])))
        return sp_fail(cx, SPARTA_E_USAGE, "options.dims %s: expected NAME=N or NAME=MIN:OPT:MAX", text);
    out->fixed = n == 1;
    out->least = v[0];
    out->most = v[n - 1];
    return SPARTA_OK;
}

typedef struct hidden {
    const sp_graph *g;
    const char *name;
} hidden;

static void keep_hidden(void *arg, const char *name)
{
    hidden *h = arg;
    if (!h->name && !sp_ops_is_size(h->g, name)) h->name = name;
}

/* A symbol that is only a part of dims, as half is of 2*half: no input says what it is, so that runs would not know. */
static sparta_status check_hidden(sparta_ctx *cx, const sp_graph *g)
{
    hidden h = {g, NULL};
    for (int i = 0; i < g->n_inputs; i++)
        for (int d = 0; d < g->input[i]->dims.rank && !h.name; d++)
            sp_expr_symbols(g->input[i]->dims.dim[d], keep_hidden, &h);
    if (!h.name) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                   "%.200s is a part of an input's size and no size by itself, so that it cannot vary; give "
                   "it one value with options.dims %.200s=N",
                   h.name, h.name);
}

/* A package is for sizes that the model takes: all of a range. */
static sparta_status check_within(sparta_ctx *cx, const sp_graph *g, const said_dim *d)
{
    sp_bound takes = sp_graph_bound(g, d->name);
    takes.least = SP_MAX(1, takes.least);
    SP_TRY(sp_bound_check(cx, &takes, d->least));
    return sp_bound_check(cx, &takes, d->most);
}

/* From 1 on says nothing of nothing: no items are computed as they are where nobody gives bounds. */
static sparta_status bind_dim(sparta_ctx *cx, sp_graph *g, const char *text)
{
    said_dim d = {0};
    SP_TRY(parse_dim(cx, text, &d));
    SP_TRY(check_within(cx, g, &d));
    if (d.fixed) return sp_ops_bind(g, &(sp_bindings){1, (const char *const[]){d.name}, &d.most});
    if (!sp_ops_is_size(g, d.name)) {
        SP_TRY(check_hidden(cx, g));
        return sp_fail(cx, SPARTA_E_USAGE, "options.dims %s: no input has a dimension '%s'", text, d.name);
    }
    return sp_graph_add_bound(g, d.name, d.least > 1 ? d.least : 0, d.most);
}

sparta_status sp_compile_bind(sparta_ctx *cx, sp_graph *g, const char *const *dims)
{
    for (int i = 0; dims && dims[i]; i++) SP_TRY(bind_dim(cx, g, dims[i]));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ lowering */

/* Scores that are sparsified and belong to no attention that was recognised: nothing is saved. */
static void note_unfused(const lowering *l)
{
    for (int i = 0; i < l->g->n_nodes; i++)
        if (l->g->node[i]->op == SP_OP_Sparsify && l->g->node[i]->n_in > 1)
            sp_note(
                l->cx,
                "%s: the attention around these scores was not recognised, so that all of them are computed "
                "and none is skipped; the answer is the same",
                l->g->node[i]->name);
}

/* The graph fused, and what runs each node of it. */
static sparta_status decide(lowering *l)
{
    SP_TRY(sp_lower_targets(l->cx, l->request->options.target, &l->targets));
    if (l->request->runs_here && l->targets.foreign)
        return sp_fail(
            l->cx, SPARTA_E_UNSUPPORTED,
            "target %s: this CPU cannot run it, so nothing could be timed; `sparta doctor` lists those "
            "it can, `sparta compile` makes code for others",
            l->request->options.target);
    memcpy(l->target, l->targets.main, sizeof l->target);
    l->no_measure = l->request->options.no_measure || l->targets.foreign;
    SP_TRY(sp_lower_strip(l->g));
    SP_TRY(sp_compile_passes(l->g));
    note_unfused(l);
    l->arena = sp_arena_create(l->cx);
    SP_NEED(l->cx, l->arena);
    SP_TRY(sp_tune_open(l->cx, l->request->options.db, &l->db));
    l->since = l->request->since ? l->request->since : sp_tune_now();
    SP_TRY(sp_lower_choose(l));
    if (l->disturbed)
        sp_note(l->cx,
                "times were taken while other programs worked: they serve this package only, and the next "
                "compile takes them again");
    return sp_lower_settle(l);
}

sparta_status sp_lower_plan(lowering *l)
{
    SP_TRY(sp_lower_layout(l));
    SP_TRY(sp_lower_pack(l));
    return sp_graph_verify(l->g);
}

/* The package of what was decided; its plan is the graph. */
static sparta_status finish(lowering *l, sparta_package **out)
{
    SP_TRY(sp_package_create(l->cx, &l->package));
    const sparta_status s = sp_lower_plan(l);
    if (s != SPARTA_OK) {
        sparta_package_close(l->package);
        return s;
    }
    l->package->plan = l->g;
    if (l->request->us) *l->request->us = l->us;
    *out = l->package;
    return SPARTA_OK;
}

static void forget(lowering *l)
{
    for (int i = 0; i < l->n_nodes; i++) sp_lower_forget(l->cx, &l->node[i]);
    sp_map_free(l->alike);
    for (int i = 0; i < l->n_kernels; i++)
        if (l->kernel[i].object) sp_jit_close(l->kernel[i].object);
    sp_tune_close(l->db);
    sp_arena_free(l->arena);
}

sparta_status sp_compile_graph(sparta_ctx *cx, sp_graph *g, const sp_compile_request *request,
                               sparta_package **out)
{
    lowering l = {.cx = cx, .g = g, .request = request};
    sparta_status s = decide(&l);
    if (s == SPARTA_OK) s = finish(&l, out);
    forget(&l);
    return s;
}

/* ------------------------------------------------------------------ files */

static void close_model(void *model)
{
    sp_model_close(model);
}

static sparta_status check_model(sparta_ctx *cx, const void *model)
{
    return sp_model_check(cx, model);
}

void sp_compile_keep_model(sparta_package *p, sp_model *model)
{
    p->owner = (sp_model_owner){model, close_model, check_model};
}

/* Is the symbol given on the command line (or by the caller)? Then the schedule's word for it does not count. */
static bool is_given(const char *const *dims, const char *name)
{
    const size_t length = strlen(name);
    for (int i = 0; dims && dims[i]; i++)
        if (!strncmp(dims[i], name, length) && dims[i][length] == '=') return true;
    return false;
}

static sparta_status bind_scheduled(sparta_ctx *cx, sp_graph *g, const char *const *given,
                                    const sparta_schedule *s)
{
    for (int i = 0; i < s->n_dims; i++) {
        const sp_schedule_name *d = &s->dim[i];
        if (is_given(given, d->name)) continue;
        const char *text = sp_arena_printf(g->arena, "%s=%s", d->name, d->text);
        SP_NEED(cx, text);
        const char *const one[] = {text, NULL};
        if (sp_compile_bind(cx, g, one) != SPARTA_OK)
            return sp_fail_in(cx, "%.200s:%d:%d", d->at.file, d->at.line, d->at.column);
    }
    return SPARTA_OK;
}

/* The model with what is said of it done, and inferred. */
static sparta_status load(sparta_ctx *cx, const char *onnx, const sparta_compile_options *o,
                          const sparta_schedule *schedule, sp_obeyed *obeyed, sp_model **out)
{
    const sp_import_options options = sp_import_options_of(o);
    sp_model *m;
    int64_t lost = 0;
    SP_TRY(sp_model_open(cx, onnx, &options, &m));
    sparta_status s = sp_compile_bind(cx, m->graph, o->dims);
    if (s == SPARTA_OK && schedule) s = bind_scheduled(cx, m->graph, o->dims, schedule);
    if (s == SPARTA_OK && o->masks) s = sp_compile_masks(cx, m->graph, o->masks, &lost);
    if (s == SPARTA_OK && schedule) s = sp_compile_schedule(cx, m->graph, schedule, obeyed);
    if (s == SPARTA_OK) s = sp_ops_infer(m->graph);
    if (s != SPARTA_OK) {
        sp_model_close(m);
        return s;
    }
    obeyed->masked_nonzero = lost + (schedule ? obeyed->masked_nonzero : 0);
    *out = m;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ as given, or smaller */

typedef struct source { /* what is compiled: imported once; stays where it is, for the request counts in it */
    int chosen;
    sp_model *model; /* its graph stays as it is */
    sp_obeyed obeyed;
    const sparta_schedule *schedule; /* NULL: none */
    sp_compile_request request;
} source;

typedef struct candidate { /* a copy of the graph on its way to a package */
    const source *from;
    sp_graph *graph;
    lowering l;
    sp_propagate_report went; /* what propagation took away */
    sp_text given;            /* the graph before that; empty: nothing went */
} candidate;

static void drop(candidate *c)
{
    if (!c->l.cx) return; /* it never began */
    forget(&c->l);
    sp_graph_free(c->graph);
    sp_text_free(&c->given);
    *c = (candidate){0};
}

/* Propagation, and what was there before it, without its weights. What is an index or a size must stay what it is; large tables of them
 * are not kept. */
static sparta_status make_smaller(candidate *c)
{
    enum { INTEGERS = 1 << 16 };
    sp_graph_print_integers(c->graph, INTEGERS, &c->given);
    SP_TRY(c->given.status);
    SP_TRY(sp_compile_propagate(c->graph, &c->from->request.options, &c->from->obeyed, &c->went));
    if (c->went.parameters_after == c->went.parameters_before) sp_text_free(&c->given);
    return SPARTA_OK;
}

static sparta_status scheduled_target(sparta_ctx *cx, const sparta_schedule *schedule,
                                      sparta_compile_options *options)
{
    lower_targets targets;
    if (!schedule || !schedule->target || options->target) return SPARTA_OK;
    options->target = schedule->target;
    if (sp_lower_targets(cx, schedule->target, &targets) == SPARTA_OK) return SPARTA_OK;
    return sp_lower_fail_at(cx, schedule->target_at);
}

static sparta_status import_once(sparta_ctx *cx, const char *onnx, const sp_compile_request *request,
                                 const sparta_schedule *schedule, source *out)
{
    *out = (source){.schedule = schedule, .request = *request};
    if (!out->request.chosen) out->request.chosen = &out->chosen;
    if (!out->request.since) out->request.since = sp_tune_now();
    SP_TRY(load(cx, onnx, &request->options, schedule, &out->obeyed, &out->model));
    SP_TRY(check_hidden(cx, out->model->graph));
    if (schedule) out->request.obeyed = &out->obeyed;
    return scheduled_target(cx, schedule, &out->request.options);
}

/* The model's graph, made smaller if asked to, and what runs it when products have so many tokens (0: the usual number). */
static sparta_status prepare(sparta_ctx *cx, const source *from, bool smaller, int64_t tokens, candidate *out)
{
    *out = (candidate){.from = from, .l = {.cx = cx}};
    sp_text_init(&out->given, cx);
    SP_TRY(sp_graph_copy(from->model->graph, &out->graph));
    for (int i = 0; i < from->obeyed.n; i++) from->obeyed.effect[i].used = false;
    out->l = (lowering){.cx = cx, .g = out->graph, .request = &from->request};
    SP_TRY(smaller ? make_smaller(out) : sp_propagate_nothing(out->graph, &out->went));
    out->graph->most_tokens = tokens;
    return decide(&out->l);
}

/* The graph as given, through the passes only: enough to see whether the smaller one can be slower. Most that are pruned need no look at it. */
static sparta_status is_no_slower(const source *from, const candidate *smaller, bool *out)
{
    sp_graph *g;
    *out = false;
    if (!sp_compile_keeps_products(&smaller->went)) return SPARTA_OK;
    SP_TRY(sp_graph_copy(from->model->graph, &g));
    sparta_status s = sp_lower_strip(g);
    if (s == SPARTA_OK) s = sp_compile_passes(g);
    *out = s == SPARTA_OK && sp_compile_no_slower(&smaller->went, smaller->graph, g);
    sp_graph_free(g);
    return s;
}

/* Single channels that go here and there leave blocks that no longer line up and heads of odd sizes, which may cost more than they save:
 * the model as given and the smaller one compete by the sums of their steps' times. Biases of zeros go without a contest. What the user removes
 * is gone in any case. */
static sparta_status compete(sparta_ctx *cx, const source *from, candidate two[2], candidate **best)
{
    const sparta_compile_options *o = &from->request.options;
    candidate *smaller = &two[0], *given = &two[1];
    SP_TRY(prepare(cx, from, !o->no_propagate, 0, smaller));
    if (!smaller->given.size || o->remove) return SPARTA_OK;
    bool no_slower;
    SP_TRY(is_no_slower(from, smaller, &no_slower));
    if (no_slower) return SPARTA_OK;
    SP_TRY(prepare(cx, from, false, 0, given));
    if (!sp_compile_worth(&smaller->went, smaller->l.us, given->l.us)) *best = given;
    return SPARTA_OK;
}

/* A user's sparsifier that rolls dice would make the check below compare two different models. */
static sparta_status same_effects(sparta_ctx *cx, const sp_obeyed *a, const sp_obeyed *b)
{
    for (int i = 0; i < a->n && i < b->n; i++)
        if (a->effect[i].digest != b->effect[i].digest) {
            sp_fail(
                cx, SPARTA_E_USAGE,
                "'%.100s': sparsify %.100s keeps other elements when it is asked again; the same weight must "
                "give the same answer",
                a->effect[i].tensor, a->effect[i].text);
            return sp_lower_fail_at(cx, a->effect[i].at);
        }
    return SPARTA_OK;
}

/* The check imports the model anew: what is compared with is the file (and what the schedule says of it, and without what is to be
 * removed), not what propagation and the passes made of it. */
static sparta_status verify_file(sparta_ctx *cx, const char *onnx, const source *from,
                                 const sparta_package *p)
{
    const sp_model *given = from->model;
    sp_model *m;
    sp_obeyed again = {0};
    const sparta_compile_options *o = &from->request.options;
    const char *const *remove = o->remove;
    const sp_tolerance tolerance = sp_compile_tolerance(o);
    SP_TRY(load(cx, onnx, o, from->schedule, &again, &m));
    sparta_status s = from->schedule ? same_effects(cx, &from->obeyed, &again) : SPARTA_OK;
    if (s == SPARTA_OK) s = sp_model_check(cx, given);
    if (s == SPARTA_OK && (m->file.size != given->file.size || m->file.mtime_ns != given->file.mtime_ns))
        s = sp_fail(cx, SPARTA_E_IO, "%s: it was replaced while it was compiled; compile it again", onnx);
    for (int i = 0; s == SPARTA_OK && remove && remove[i]; i++) s = sp_propagate_remove(m->graph, remove[i]);
    if (s == SPARTA_OK && remove) s = sp_ops_infer(m->graph);
    if (s == SPARTA_OK) s = sp_compile_widen(m->graph);
    if (s == SPARTA_OK) s = sp_lower_verify_targets(cx, p, m->graph, &tolerance);
    sp_model_close(m);
    return s;
}

/* The package of a candidate, whose graph then is the package's. */
static sparta_status pack(sparta_ctx *cx, candidate *c, sparta_package **out)
{
    sparta_package *p;
    SP_TRY(finish(&c->l, &p));
    c->graph = NULL;
    if (c->given.size && !(p->given = sp_arena_string(p->arena, sp_text_str(&c->given)))) {
        sparta_package_close(p);
        return sp_ctx_status(cx);
    }
    *out = p;
    return SPARTA_OK;
}

/* A plan for runs of so many tokens, into the package; none where the same would be chosen as for the usual number. */
static sparta_status add_plan(sparta_ctx *cx, const source *from, bool smaller, const lower_range *asked,
                              const char *usual, sparta_package *p)
{
    candidate c = {0};
    sp_text choices;
    sp_text_init(&choices, cx);
    sparta_status s = prepare(cx, from, smaller, asked->tokens, &c);
    if (s == SPARTA_OK) sp_lower_choices(&c.l, &choices);
    if (s == SPARTA_OK) s = choices.status;
    if (s == SPARTA_OK && sp_lower_may_have(c.graph, asked->most) && strcmp(sp_text_str(&choices), usual)) {
        c.l.package = p;
        s = sp_lower_other(&c.l, asked);
        c.graph = NULL;
    }
    sp_text_free(&choices);
    drop(&c);
    return s;
}

/* The better of two, packed, with the other plans that are asked for. */
static sparta_status pack_best(sparta_ctx *cx, const source *from, candidate two[2], candidate *best,
                               sparta_package **out)
{
    lower_range range[SP_OTHER_PLANS];
    sp_text usual;
    int n;
    SP_TRY(sp_lower_ranges(&best->l, range, &n));
    drop(&two[best == two]); /* before the weights of the other are packed */
    sp_text_init(&usual, cx);
    sp_lower_choices(&best->l, &usual);
    sparta_status s = usual.status != SPARTA_OK ? usual.status : pack(cx, best, out);
    if (s == SPARTA_OK) {
        const bool smaller = best == two && !from->request.options.no_propagate;
        for (int i = 0; i < n && s == SPARTA_OK; i++)
            s = add_plan(cx, from, smaller, &range[i], sp_text_str(&usual), *out);
        if (s != SPARTA_OK) sparta_package_close(*out);
    }
    sp_text_free(&usual);
    return s;
}

/* A note of the sizes that times were taken or estimated at, where nobody gave some; one that is run next is measured at sizes of its own. */
static sparta_status note_sizes(sparta_ctx *cx, const source *from)
{
    const char *const *dims = from->request.options.dims;
    sp_arena *arena = sp_arena_create(cx);
    sp_bindings given = {0}, sizes;
    int n = 0;
    SP_NEED(cx, arena);
    while (dims && dims[n]) n++;
    given.name = sp_arena_array(arena, (size_t)n + 1, sizeof *given.name);
    sparta_status s = given.name ? SPARTA_OK : sp_ctx_status(cx);
    for (; given.n < n && s == SPARTA_OK; given.n++) {
        ((const char **)given.name)[given.n] =
            sp_arena_bytes(arena, dims[given.n], strcspn(dims[given.n], "="));
        if (!given.name[given.n]) s = sp_ctx_status(cx);
    }
    if (s == SPARTA_OK) s = sp_compile_usual_sizes(cx, arena, from->model->graph, &sizes);
    if (s == SPARTA_OK) sp_sizes_note(cx, &given, &sizes);
    sp_arena_free(arena);
    return s;
}

/* The same, checked. */
static sparta_status compile_best(sparta_ctx *cx, const char *onnx, const source *from, candidate two[2],
                                  sparta_package **out)
{
    candidate *best = two;
    sparta_package *p = NULL;
    SP_TRY(compete(cx, from, two, &best));
    SP_TRY(pack_best(cx, from, two, best, &p));
    sparta_status s = from->request.no_verify ? SPARTA_OK : verify_file(cx, onnx, from, p);
    /* A file that changed meanwhile is why answers differ. */
    if ((s == SPARTA_OK || s == SPARTA_E_DIFFER) && sp_model_check(cx, from->model) != SPARTA_OK)
        s = SPARTA_E_IO;
    if (s == SPARTA_OK && !from->request.runs_here) s = note_sizes(cx, from);
    if (s != SPARTA_OK) {
        sparta_package_close(p);
        return s;
    }
    p->parameters_given = best->went.parameters_before;
    p->parameters_left = best->went.parameters_after;
    p->masked_nonzero = from->obeyed.masked_nonzero;
    *out = p;
    return SPARTA_OK;
}

static sparta_status compile_model(sparta_ctx *cx, const char *onnx, const sp_compile_request *request,
                                   const sparta_schedule *schedule, sparta_package **out)
{
    source from;
    candidate two[2] = {0};
    if (request->options.no_propagate && request->options.remove)
        return sp_fail(cx, SPARTA_E_USAGE,
                       "compile: what is to be removed goes by propagation; leave out options.remove or "
                       "options.no_propagate");
    if (request->options.no_measure && request->options.remeasure)
        return sp_fail(cx, SPARTA_E_USAGE,
                       "compile: with options.no_measure nothing is timed, and options.remeasure times all "
                       "anew; leave out one of them");
    sparta_status s = import_once(cx, onnx, request, schedule, &from);
    if (s == SPARTA_OK) s = compile_best(cx, onnx, &from, two, out);
    drop(&two[0]);
    drop(&two[1]);
    if (s == SPARTA_OK)
        sp_compile_keep_model(*out, from.model);
    else
        sp_model_close(from.model);
    return s;
}

/* The file's schedule, or none when there are rules or neither. */
sparta_status sp_compile_rules(sparta_ctx *cx, const sparta_compile_options *o, sparta_schedule **out)
{
    *out = NULL;
    if (o->schedule && o->rules)
        return sp_fail(cx, SPARTA_E_USAGE,
                       "compile: a schedule file and rules: what counts? give one of them");
    if (o->rules && o->rules->cx != cx)
        return sp_fail(cx, SPARTA_E_USAGE,
                       "compile: the rules belong to another context; make them with this one");
    return o->schedule ? sparta_schedule_open(cx, o->schedule, out) : SPARTA_OK;
}

sparta_status sp_compile_open(sparta_ctx *cx, const char *onnx, const sparta_compile_options *options,
                              sp_opened *out)
{
    sp_opened o = {0};
    SP_TRY(sp_compile_rules(cx, options, &o.schedule));
    sparta_status s =
        load(cx, onnx, options, options->rules ? options->rules : o.schedule, &o.obeyed, &o.model);
    if (s == SPARTA_OK)
        *out = o;
    else
        sparta_schedule_free(o.schedule);
    return s;
}

void sp_compile_close(sp_opened *o)
{
    sp_model_close(o->model);
    sparta_schedule_free(o->schedule);
    *o = (sp_opened){0};
}

sparta_status sp_compile_file(sparta_ctx *cx, const char *onnx, const sp_compile_request *request,
                              sparta_package **out)
{
    sparta_schedule *schedule;
    SP_TRY(sp_compile_rules(cx, &request->options, &schedule));
    sparta_status s =
        compile_model(cx, onnx, request, request->options.rules ? request->options.rules : schedule, out);
    sparta_schedule_free(schedule);
    return s;
}

sparta_status sparta_compile_package(sparta_ctx *cx, const char *onnx, const sparta_compile_options *options,
                                     sparta_package **out)
{
    sp_compile_request request = {0};
    SP_TRY(sp_options(cx, "compile", options, &request.options, sizeof request.options));
    request.no_verify = request.options.no_verify;
    return sp_compile_file(cx, onnx, &request, out);
}

sparta_status sparta_compile(sparta_ctx *cx, const char *onnx, const char *package,
                             const sparta_compile_options *options)
{
    sparta_package *p;
    SP_TRY(sparta_compile_package(cx, onnx, options, &p));
    sparta_status s = sparta_package_save(cx, p, package);
    sparta_package_close(p);
    return s;
}
