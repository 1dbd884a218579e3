/* what if: a model pruned so, in memory, against itself dense.
 *
 *   model --passes, dense rows--> dense package ----------------------------+
 *     |                                                                     |
 *     +--for each pattern: prune copies of the weights, compile--> package -+--in turns--> speed-up, interval
 *                                  |                                  |
 *                           norm kept, remarks                 layers, size, break-even by shape
 *
 * The weights are those of sp_prune_weights. Pruning in one shot says nothing sure about accuracy: the norm that is
 * kept is a proxy. Patterns are measured first and break-even after them all, so that an interrupted call has the most to
 * say. */
#include "measure/runner.h"
#include "ops/ops.h"
#include "prune/prune.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHAPES = 8 }; /* the most that break-even is measured for */

typedef struct study {
    sparta_ctx *cx;
    sp_arena *arena;
    const sp_what_if_request *r;
    sp_compile_request compile; /* the request's, with progress through us */
    sparta_package *source;     /* when the model is a package */
    sp_prune_spec *spec;        /* of each pattern */
    sp_runner dense;
    sp_bindings said; /* sizes, also those of given inputs */
    sp_what_if out;
    int step, steps; /* of the whole work, for progress */
    int told;        /* of it, in hundredths of a step */
    const char *doing;
    bool no_memory; /* a text could not be copied */
} study;

/* ------------------------------------------------------------------ progress */

static void relay(void *arg, int done, int all, const char *what)
{
    study *s = arg;
    char text[200];
    snprintf(text, sizeof text, "%.60s: %.120s", s->doing, what);
    /* What a step counts may grow or begin anew, as when it compiles a second graph: the whole does not fall back. */
    const int part = all > 0 ? SP_MIN(done * 100 / all, 100) : 0;
    s->told = SP_MAX(s->told, SP_MIN(s->step * 100 + part, s->steps * 100));
    sp_compile_tell(&s->r->compile.options, s->told, s->steps * 100, text);
}

static void begin(study *s, const char *doing, const char *what)
{
    s->doing = doing;
    relay(s, 0, 1, what);
}

/* ------------------------------------------------------------------ the model, anew */

typedef struct fresh { /* a graph that may be changed; it borrows from `model` when there is one */
    sp_graph *graph;
    sp_model *model;
} fresh;

static void close_fresh(fresh *f)
{
    sp_graph_free(f->graph);
    sp_model_close(f->model);
    *f = (fresh){0};
}

static sparta_status open_fresh(study *s, fresh *out)
{
    const sp_import_options options = sp_import_options_of(&s->compile.options);
    *out = (fresh){0};
    if (s->source) return sp_compile_unplan(s->cx, s->source, &out->graph);
    SP_TRY(sp_model_open(s->cx, s->r->model, &options, &out->model));
    const sparta_status status = sp_graph_copy(out->model->graph, &out->graph);
    if (status) close_fresh(out);
    return status;
}

/* The package owns the graph when it succeeds. */
static sparta_status compile(study *s, fresh *f, bool dense_only, sp_runner *out)
{
    sp_compile_request request = s->compile;
    sparta_package *p;
    request.options.dense_only = dense_only;
    SP_TRY(sp_ops_bind(f->graph, &s->said)); /* few tokens have implements of their own */
    SP_TRY(sp_compile_graph(s->cx, f->graph, &request, &p));
    if (f->model) sp_compile_keep_model(p, f->model);
    *f = (fresh){0};
    *out = (sp_runner){.cx = s->cx, .package = p, .owns = true};
    return SPARTA_OK;
}

static sparta_status start_session(study *s, sp_runner *r)
{
    const sp_runner_start how = {.threads = s->r->threads,
                                 .seed = s->r->seed,
                                 .sizes = &s->out.sizes,
                                 .inputs = s->r->inputs,
                                 .n_inputs = s->r->n_inputs};
    return sp_runner_start_session(r, &how);
}

/* ------------------------------------------------------------------ pruning */

typedef struct tally {
    int64_t elements, absent;
    double all, kept; /* squares */
} tally;

/* Squares of the finite elements, and how many are 0. */
static double squares(const sparta_tensor *w, int64_t *zeros)
{
    const int64_t n = sparta_tensor_elements(w);
    double sum = 0;
    int64_t none = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = w->dtype == SPARTA_F32 ? (double)((const float *)w->data)[i]
                                                : sp_element_get(w->dtype, w->data, i);
        if (isfinite(x)) sum += x * x;
        none += x == 0;
    }
    *zeros = none;
    return sum;
}

static sparta_status remark(study *s, sp_what_if_pattern *out, const sp_schedule_match *m,
                            const int64_t shape[2], bool skipped)
{
    const sp_value *v = m->value;
    const char *what =
        skipped ? "its blocks are larger than the weight: not pruned"
                : "its blocks do not divide the weight: those at the edge are smaller, kernels pad them";
    sp_what_if_remark *r = &out->remark[out->n_remarks];
    *r = (sp_what_if_remark){
        .weight = sp_arena_string(s->arena, sp_initialiser_name(v)),
        .remark = what,
        .n = shape[0],
        .k = shape[1],
        .skipped = skipped,
    };
    SP_NEED(s->cx, r->weight);
    out->n_remarks++;
    return SPARTA_OK;
}

/* A copy of the weight loses elements. */
static sparta_status prune_weight(study *s, const sp_prune_spec *spec, sp_graph *g,
                                  const sp_schedule_match *m, tally *t)
{
    const sparta_tensor *given = m->value->constant;
    sparta_tensor *copy = sp_arena_alloc(g->arena, sizeof *copy);
    int64_t zeros;
    SP_NEED(s->cx, copy);
    SP_TRY(sp_tensor_alloc_in(g->arena, given->dtype, given->rank, given->dim, copy));
    SP_TRY(sp_tensor_copy(s->cx, given, copy));
    t->all += squares(copy, &zeros);
    sparta_tensor w = *copy;
    if (m->turned) {
        w.dim[0] = copy->dim[1], w.dim[1] = copy->dim[0];
        w.stride[0] = copy->stride[1], w.stride[1] = copy->stride[0];
    }
    SP_TRY(sp_prune(s->cx, spec, &w, NULL));
    t->kept += squares(copy, &zeros);
    t->absent += zeros;
    t->elements += sparta_tensor_elements(copy);
    m->value->constant = copy;
    return SPARTA_OK;
}

static sparta_status find_weights(study *s, sp_graph *g, sp_schedule_match **match, int *n)
{
    return sp_prune_weights(g, g->arena, match, n) ? sp_fail_in(s->cx, "what-if: %.200s", s->r->model)
                                                   : SPARTA_OK;
}

/* Once for the model: what is left does not depend on the pattern. */
static sparta_status list_left(study *s, const sp_graph *g, const sp_schedule_match *match, int n)
{
    sp_left *left;
    int count;
    if (s->out.left) return SPARTA_OK;
    SP_TRY(sp_prune_left(g, match, n, s->arena, &left, &count));
    s->out.left = sp_arena_array(s->arena, (size_t)count + 1, sizeof *s->out.left);
    SP_NEED(s->cx, s->out.left);
    for (int i = 0; i < count; i++) {
        sp_what_if_left *l = &s->out.left[i];
        *l = (sp_what_if_left){.weight = sp_arena_string(s->arena, left[i].weight),
                               .reason = sparta_left_reason(left[i].why),
                               .rank = left[i].tensor->rank};
        SP_NEED(s->cx, l->weight);
        memcpy(l->dim, left[i].tensor->dim, sizeof l->dim);
    }
    s->out.n_left = count;
    return SPARTA_OK;
}

static sparta_status prune_all(study *s, const sp_prune_spec *spec, sp_graph *g, sp_what_if_pattern *out)
{
    sp_schedule_match *match;
    tally t = {0};
    SP_TRY(find_weights(s, g, &match, &out->n_weights));
    SP_TRY(list_left(s, g, match, out->n_weights));
    out->remark = sp_arena_array(s->arena, (size_t)out->n_weights + 1, sizeof *out->remark);
    SP_NEED(s->cx, out->remark);
    for (int i = 0; i < out->n_weights; i++) {
        const sp_schedule_match *m = &match[i];
        const int64_t *dim = m->value->constant->dim, shape[2] = {dim[m->turned], dim[!m->turned]};
        const bool skipped = sp_prune_too_large(spec, shape[0], shape[1]);
        SP_TRY(sp_check_cancel(s->cx));
        if (skipped || sp_prune_ragged(spec, shape[0], shape[1])) SP_TRY(remark(s, out, m, shape, skipped));
        if (skipped) continue;
        SP_TRY(prune_weight(s, spec, g, m, &t));
        out->n_pruned++;
        relay(s, i + 1, out->n_weights, "pruning");
    }
    out->sparsity = t.elements ? (double)t.absent / (double)t.elements : 0;
    out->norm_kept = t.all > 0 ? sqrt(t.kept / t.all) : 1;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ measuring */

static sparta_status race(study *s, sp_runner *pruned, sp_what_if_pattern *out)
{
    const sp_alternation how = {1, 0, s->r->seconds, &s->compile.options};
    sp_samples a = {0}, b = {0};
    sp_comparison c;
    SP_TRY(start_session(s, pruned));
    SP_TRY(sp_runner_alternate(s->arena, pruned, &s->dense, &how, &a, &b));
    SP_TRY(sp_compare(s->cx, a.x, b.x, a.n, s->r->seed + 1, &c));
    out->speedup = c.a.median > 0 ? c.ratio : NAN;
    out->ci95[0] = c.lo;
    out->ci95[1] = c.hi;
    out->median_ms = c.a.median * 1e3;
    out->dense_ms = c.b.median * 1e3;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ layers */

static int by_gain(const void *x, const void *y)
{
    const sp_what_if_layer *a = x, *b = y;
    const double gain_a = a->dense_us - a->us, gain_b = b->dense_us - b->us;
    return gain_a != gain_b ? (gain_a < gain_b ? 1 : -1) : strcmp(a->name, b->name);
}

static const char *copy(study *s, const char *text)
{
    const char *kept = sp_arena_string(s->arena, text);
    s->no_memory |= !kept;
    return kept ? kept : "";
}

static void fill_layer(study *s, const sp_prune_spec *spec, const sp_layer *l, sp_what_if_layer *out)
{
    *out = (sp_what_if_layer){.name = copy(s, l->name),
                              .pattern = copy(s, l->pattern),
                              .implement = copy(s, l->implement),
                              .source = copy(s, l->source),
                              .n = l->n,
                              .k = l->k,
                              .tokens = l->tokens,
                              .density = l->density,
                              .us = l->us,
                              .dense_us = l->dense_us};
    if (l->density == 1 && sp_prune_too_large(spec, l->n, l->k))
        out->reason = "the pattern's blocks are larger than the weight: not pruned";
    else
        out->reason = copy(s, l->reason);
}

static sparta_status fill_layers(study *s, const sp_prune_spec *spec, const sparta_package *p,
                                 sp_what_if_pattern *out)
{
    sp_layer *said;
    int n;
    SP_TRY(sp_compile_layers(s->cx, s->arena, p->plan, s->compile.options.db, NULL, &said, &n));
    out->layer = sp_arena_array(s->arena, (size_t)n + 1, sizeof *out->layer);
    SP_NEED(s->cx, out->layer);
    for (int i = 0; i < n; i++)
        if (said[i].n) fill_layer(s, spec, &said[i], &out->layer[out->n_layers++]);
    if (s->no_memory) return sp_ctx_status(s->cx);
    qsort(out->layer, (size_t)out->n_layers, sizeof *out->layer, by_gain);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ one pattern */

static sparta_status study_pattern(study *s, const sp_prune_spec *spec, sp_runner *pruned,
                                   sp_what_if_pattern *out)
{
    fresh f;
    SP_TRY(open_fresh(s, &f));
    sparta_status status = prune_all(s, spec, f.graph, out);
    if (!status && out->n_pruned) status = compile(s, &f, false, pruned);
    close_fresh(&f);
    if (status || !out->n_pruned) return status;
    out->bytes = sp_runner_bytes(pruned);
    SP_TRY(fill_layers(s, spec, pruned->package, out));
    return race(s, pruned, out);
}

static sparta_status one_pattern(study *s, int i)
{
    sp_runner pruned = {0};
    sp_what_if_pattern p = {
        .pattern = s->r->pattern[i], .speedup = NAN, .ci95 = {NAN, NAN}, .median_ms = NAN, .dense_ms = NAN};
    p.dense_bytes = p.bytes = sp_runner_bytes(&s->dense);
    begin(s, p.pattern, "pruning");
    sparta_status status = study_pattern(s, &s->spec[i], &pruned, &p);
    sp_runner_close(&pruned);
    SP_TRY(status);
    s->out.pattern[s->out.n++] = p;
    s->step++;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ break-even */

static int by_work(const void *x, const void *y)
{
    const sp_break_even *a = x, *b = y;
    const double work_a = a->sparsity, work_b = b->sparsity; /* see shapes_of */
    return (work_a < work_b) - (work_a > work_b);
}

/* The shapes of the pruned layers, most work first; `sparsity` holds the work until it is known. */
static sparta_status shapes_of(study *s, const sp_what_if_pattern *p, sp_break_even **out, int *n)
{
    sp_break_even *all = sp_arena_array(s->arena, (size_t)p->n_layers + 1, sizeof *all);
    int count = 0;
    SP_NEED(s->cx, all);
    for (int i = 0; i < p->n_layers; i++) {
        const sp_what_if_layer *l = &p->layer[i];
        int at = 0;
        if (l->density == 1) continue;
        while (at < count && (all[at].n != l->n || all[at].k != l->k || all[at].tokens != l->tokens)) at++;
        if (at == count) all[count++] = (sp_break_even){.n = l->n, .k = l->k, .tokens = l->tokens};
        all[at].sparsity += (double)l->n * (double)l->k * (double)l->tokens;
    }
    qsort(all, (size_t)count, sizeof *all, by_work);
    *out = all;
    *n = SP_MIN(count, SHAPES);
    return SPARTA_OK;
}

/* n:m has none: how its layers compare with dense is the answer. */
static sparta_status break_even(study *s, int i)
{
    sp_what_if_pattern *p = &s->out.pattern[i];
    const char *target = s->compile.options.target;
    sp_break_even *shape;
    int n;
    s->step++;
    if (s->spec[i].of) return SPARTA_OK;
    const size_t length = (size_t)(strrchr(p->pattern, ':') - p->pattern);
    const char *name = sp_arena_bytes(s->arena, p->pattern, length);
    SP_NEED(s->cx, name);
    SP_TRY(shapes_of(s, p, &shape, &n));
    p->break_even = shape;
    for (int k = 0; k < n; k++) {
        sp_break_even e = {.n = shape[k].n, .k = shape[k].k, .tokens = shape[k].tokens};
        begin(s, p->pattern, "break-even");
        SP_TRY(sp_break_even_find(s->cx, s->arena, s->compile.options.db, name, target, &e));
        shape[k] = e;
        p->n_break_even = k + 1;
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the whole */

static sparta_status parse_patterns(study *s)
{
    const int n = s->r->n_patterns;
    if (n < 1) return sp_fail(s->cx, SPARTA_E_USAGE, "what-if: no pattern; give e.g. 4x1:0.9,2:4");
    s->spec = sp_arena_array(s->arena, (size_t)n, sizeof *s->spec);
    SP_NEED(s->cx, s->spec);
    s->out.pattern = sp_arena_array(s->arena, (size_t)n, sizeof *s->out.pattern);
    SP_NEED(s->cx, s->out.pattern);
    for (int i = 0; i < n; i++) {
        if (sp_prune_parse(s->cx, s->r->pattern[i], &s->spec[i]) != SPARTA_OK)
            return sp_fail_in(s->cx, "what-if");
        for (int k = 0; k < i; k++)
            if (!strcmp(s->r->pattern[i], s->r->pattern[k]))
                return sp_fail(s->cx, SPARTA_E_USAGE, "what-if: %.60s is asked for twice; leave one out",
                               s->r->pattern[i]);
    }
    s->steps = 1 + n * (s->r->no_break_even ? 1 : 2);
    return SPARTA_OK;
}

/* Sizes that the model runs at are found where its shapes are known: in a copy, since the graph itself is to be bound first. Without shapes, or
 * with shapes that need the given sizes to be known, the usual ones have to do. */
static sparta_status fill_sizes(study *s, const sp_graph *g)
{
    sp_graph *typed;
    bool bind;
    SP_TRY(sp_graph_copy(g, &typed));
    sparta_status status = sp_ops_infer_given(typed, &s->said, &bind);
    const bool known = status == SPARTA_OK && !bind;
    if (status != SPARTA_E_MEMORY && status != SPARTA_E_CANCELLED) {
        if (status) sp_ctx_clear(s->cx);
        status = sp_sizes_fill(s->cx, s->arena, known ? typed : g, &s->said, &s->out.sizes);
    }
    sp_graph_free(typed);
    return status;
}

static sparta_status prepare(study *s)
{
    sparta_file_kind kind;
    fresh f;
    SP_TRY(parse_patterns(s));
    SP_TRY(sparta_file_kind_of(s->cx, s->r->model, &kind));
    if (kind == SPARTA_FILE_PACKAGE) SP_TRY(sparta_package_open(s->cx, s->r->model, &s->source));
    SP_TRY(open_fresh(s, &f));
    begin(s, "dense", "compiling");
    sp_schedule_match *match;
    int n;
    sparta_status status = find_weights(s, f.graph, &match, &n);
    if (!status)
        status =
            sp_runner_sizes(s->cx, s->arena, f.graph, &s->r->sizes, s->r->inputs, s->r->n_inputs, &s->said);
    if (!status) status = fill_sizes(s, f.graph);
    if (!status) status = sp_sizes_some(s->cx, &s->out.sizes);
    if (!status) status = compile(s, &f, true, &s->dense);
    close_fresh(&f);
    SP_TRY(status);
    SP_TRY(start_session(s, &s->dense));
    s->out.threads = sparta_session_threads(s->dense.session);
    snprintf(s->out.isa, sizeof s->out.isa, "%s", sparta_session_isa(s->dense.session));
    s->step++;
    return SPARTA_OK;
}

sparta_status sp_what_if_run(sparta_ctx *cx, sp_arena *arena, const sp_what_if_request *r, sp_what_if *out)
{
    study s = {.cx = cx, .arena = arena, .r = r, .compile = r->compile, .doing = ""};
    s.compile.options.masks = s.compile.options.schedule = NULL;
    s.compile.options.rules = NULL;
    s.compile.options.dims = NULL; /* sizes are bound here */
    s.compile.obeyed = NULL;
    s.compile.no_verify = true; /* every layer's choice is checked as it is made */
    s.compile.options.progress = relay;
    s.compile.options.progress_user = &s;
    sparta_status status = prepare(&s);
    for (int i = 0; i < r->n_patterns && !status; i++) status = one_pattern(&s, i);
    sp_runner_close(&s.dense); /* its memory is not needed below */
    for (int i = 0; i < s.out.n && !status && !r->no_break_even; i++) status = break_even(&s, i);
    sparta_package_close(s.source);
    s.out.complete = status == SPARTA_OK;
    if (!status) sp_sizes_note(cx, &s.said, &s.out.sizes);
    if (!status || status == SPARTA_E_CANCELLED) *out = s.out;
    return status;
}
