/* verify: two models on the same inputs.
 *
 * A package runs as it is used, in a session, after the digests of its weights were compared; an ONNX file
 * runs on the references. Without given inputs the two are compared at several sizes: a panel and one token
 * more, a ragged batch, single tokens; with fewer items where the references would take too long, which images do. When an output differs, difference.c looks for the first value that does. */
#include "measure/side.h"
#include "ops/ops.h"
#include <math.h>
#include <string.h>

/* Results of one run, by position in graph->output; allocated from the context. */
typedef struct results {
    int n;
    sparta_tensor *tensor;
    double *slack;   /* of each, for close.h; NULL: not known, a session does not tell */
    sp_units *units; /* of each; NULL: nobody asked */
} results;

/* ------------------------------------------------------------------ sides */

static sparta_status open_package(sp_side *s, int threads)
{
    sparta_session_options options = {sizeof options, threads, 0};
    SP_TRY(sparta_package_open(s->cx, s->path, &s->package));
    s->graph = s->package->plan;
    SP_TRY(sparta_package_check(s->cx, s->package));
    return sparta_session_create(s->cx, s->package, &options, &s->session);
}

/* *bind: it has to be read again, with the sizes of the request in place of its symbols. */
static sparta_status read_model(sp_side *s, const sp_verify_request *r, bool *bind)
{
    const sparta_status status = sp_side_model(s, r, &s->model);
    *bind = status == SPARTA_E_UNSUPPORTED && r->sizes.n; /* its schedule asks for a share of a symbol */
    SP_TRY(status);
    s->graph = s->model->graph;
    return sp_ops_infer_given(s->model->graph, &r->sizes, bind);
}

static sparta_status open_model(sp_side *s, const sp_verify_request *r)
{
    bool bind;
    sparta_status status = read_model(s, r, &bind);
    if (bind) {
        sp_model_close(s->model);
        s->model = NULL;
        s->bound = true;
        status = read_model(s, r, &bind);
    }
    return status ? status : sp_compile_widen(s->model->graph);
}

static sparta_status open_side(sp_side *s, const sp_verify_request *r)
{
    sparta_file_kind kind;
    SP_TRY(sparta_file_kind_of(s->cx, s->path, &kind));
    return kind == SPARTA_FILE_PACKAGE ? open_package(s, r->threads) : open_model(s, r);
}

static void close_side(sp_side *s)
{
    sparta_session_free(s->session);
    sparta_package_close(s->package);
    if (s->model) sp_model_close(s->model);
}

static void free_results(sparta_ctx *cx, results *r)
{
    for (int i = 0; i < r->n; i++) sp_free(cx, r->tensor[i].data);
    if (r->units) sp_units_free(cx, r->units, r->n);
    sp_free(cx, r->tensor);
    sp_free(cx, r->slack);
    sp_free(cx, r->units);
    *r = (results){0};
}

/* A session's outputs live until its next run: keep a copy. */
static sparta_status copy_outputs(sp_side *s, const sparta_named_tensor *out, results *to)
{
    for (int i = 0; i < s->graph->n_outputs; i++, to->n++) {
        const sparta_tensor *t = &out[i].tensor;
        SP_TRY(sp_tensor_alloc(s->cx, t->dtype, t->rank, t->dim, &to->tensor[i]));
        sparta_status status = sp_tensor_copy(s->cx, t, &to->tensor[i]);
        if (status) {
            sp_free(s->cx, to->tensor[i].data);
            return status;
        }
    }
    return SPARTA_OK;
}

static sparta_status run_session(sp_side *s, const sparta_named_tensor *in, int n_in, results *to)
{
    int n = s->graph->n_outputs;
    sparta_named_tensor *out = sp_alloc_array(s->cx, (size_t)n + 1, sizeof *out);
    SP_NEED(s->cx, out);
    for (int i = 0; i < n; i++) out[i].name = s->graph->output[i]->name;
    sparta_status status = sparta_session_run(s->cx, s->session, in, n_in, out, n);
    if (!status) status = copy_outputs(s, out, to);
    sp_free(s->cx, out);
    return status;
}

/* Outputs and their slack. */
static sparta_status run_references(sparta_ctx *cx, const sp_graph *g, const sparta_named_tensor *in,
                                    int n_in, results *to)
{
    to->slack = sp_alloc_array(cx, (size_t)g->n_outputs + 1, sizeof *to->slack);
    SP_NEED(cx, to->slack);
    SP_TRY(sp_ops_answer(cx, g, &(sp_answer){in, n_in, to->tensor, to->slack}));
    to->n = g->n_outputs;
    return SPARTA_OK;
}

static sparta_status run_side(sp_side *s, const sparta_named_tensor *in, int n_in, results *to)
{
    to->tensor = sp_alloc_array(s->cx, (size_t)s->graph->n_outputs + 1, sizeof *to->tensor);
    SP_NEED(s->cx, to->tensor);
    sparta_status status =
        s->session ? run_session(s, in, n_in, to) : run_references(s->cx, s->graph, in, n_in, to);
    if (!status && !s->session) status = sp_model_check(s->cx, s->model);
    return status ? sp_fail_in(s->cx, "%s", s->path) : SPARTA_OK;
}

static sparta_status find_units(sparta_ctx *cx, const sp_graph *g, const sparta_named_tensor *in, int n_in,
                                bool broken, results *r)
{
    r->units = sp_alloc_array(cx, (size_t)g->n_outputs + 1, sizeof *r->units);
    SP_NEED(cx, r->units);
    return sp_ops_units(cx, g, &(sp_answer){in, n_in, r->tensor, r->slack}, broken, r->units);
}

/* Both of a package's outputs: its graph on the references. */
static sparta_status judge_package(sp_side *s, const sparta_named_tensor *in, int n_in, bool broken,
                                   results *to)
{
    sp_graph *g = NULL;
    results plain = {0};
    SP_TRY(sp_compile_unplan(s->cx, s->package, &g));
    plain.tensor = sp_alloc_array(s->cx, (size_t)g->n_outputs + 1, sizeof *plain.tensor);
    sparta_status status = plain.tensor ? sp_ops_infer(g) : sp_ctx_status(s->cx);
    if (!status) status = run_references(s->cx, g, in, n_in, &plain);
    if (!status) status = find_units(s->cx, g, in, n_in, broken, &plain);
    if (!status) {
        to->slack = plain.slack;
        to->units = plain.units;
        plain.slack = NULL;
        plain.units = NULL;
    }
    free_results(s->cx, &plain);
    sp_graph_free(g);
    return status;
}

/* ------------------------------------------------------------------ comparing */

/* Keep the worst of all sizes; what differs once differs. */
static void keep_worst(sp_verify_output *worst, const sp_closeness *one, const sp_units *units)
{
    if (worst->ok) {
        worst->allowed = one->allowed;
        worst->unit = one->ok ? fmax(worst->unit, units->change) : units->change;
        worst->unit_broken = one->ok ? SP_MAX(worst->unit_broken, units->broken) : units->broken;
    }
    worst->max_abs = fmax(worst->max_abs, one->max_abs);
    worst->max_rel = fmax(worst->max_rel, one->max_rel);
    worst->cosine = fmin(worst->cosine, one->cosine);
    worst->ok &= one->ok;
}

/* What is compared at one size. */
typedef struct meeting {
    sp_side *a, *b;
    const sparta_named_tensor *in;
    int n_in;
    results ra, rb;
} meeting;

/* What is forgiven an output that is not close: what its references say, b's or else a's, of which those of a package have not run yet. */
static sparta_status forgive(meeting *p, int at, int i, bool broken, const double **slack,
                             const sp_units **units)
{
    const bool by_a = p->ra.slack && !p->rb.slack;
    const sp_side *s = by_a ? p->a : p->b;
    results *r = by_a ? &p->ra : &p->rb;
    if (!r->slack)
        SP_TRY(judge_package(p->b, p->in, p->n_in, broken, r));
    else if (!r->units)
        SP_TRY(find_units(s->cx, s->graph, p->in, p->n_in, broken, r));
    *slack = &r->slack[by_a ? at : i];
    *units = &r->units[by_a ? at : i];
    return SPARTA_OK;
}

/* One output. */
static sparta_status compare_output(meeting *p, int at, int i, const sp_tolerance *t, sp_closeness *out,
                                    sp_units *units)
{
    const double *slack = p->rb.slack ? &p->rb.slack[i] : p->ra.slack ? &p->ra.slack[at] : NULL;
    const sparta_tensor *a = &p->ra.tensor[at], *b = &p->rb.tensor[i];
    const sp_units *of;
    *units = (sp_units){0};
    if (sp_close(a, b, t, slack ? *slack : 0, out) || t->atol >= 0) return SPARTA_OK;
    SP_TRY(forgive(p, at, i, out->broken > 0, &slack, &of));
    if (sp_close(a, b, t, *slack, out)) return SPARTA_OK;
    *units = *of;
    sp_close_units(a, b, t, *slack, units, out);
    return SPARTA_OK;
}

static sparta_status compare(meeting *p, const sp_tolerance *t, sp_verify_result *out)
{
    for (int i = 0; i < p->b->graph->n_outputs; i++) {
        int at = sp_graph_named(p->a->graph->output, p->a->graph->n_outputs, p->b->graph->output[i]->name);
        sp_closeness one;
        sp_units units;
        if (at < 0)
            return sp_fail(p->a->cx, SPARTA_E_USAGE,
                           "%s: has no output \"%s\", which %s has; compare models with the same outputs",
                           p->a->path, out->output[i].name, p->b->path);
        SP_TRY(compare_output(p, at, i, t, &one, &units));
        out->compared |= sparta_tensor_elements(&p->rb.tensor[i]) > 0;
        keep_worst(&out->output[i], &one, &units);
        out->ok &= one.ok;
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ one size, many sizes */

static sparta_status compare_on(sp_side *a, sp_side *b, const sparta_named_tensor *in, int n_in,
                                const sp_verify_request *r, sp_arena *arena, sp_verify_result *out)
{
    meeting p = {.a = a, .b = b, .in = in, .n_in = n_in};
    bool was_ok = out->ok;
    sparta_status status = run_side(a, in, n_in, &p.ra);
    if (!status) status = run_side(b, in, n_in, &p.rb);
    if (!status) status = compare(&p, &r->tolerance, out);
    free_results(a->cx, &p.ra);
    free_results(a->cx, &p.rb);
    if (!status && was_ok && !out->ok) status = sp_first_difference(a, b, in, n_in, r, arena, out);
    return status;
}

static sparta_status same_inputs(const sp_side *a, const sp_side *b)
{
    for (int i = 0; i < a->graph->n_inputs; i++) {
        const char *name = a->graph->input[i]->name;
        bool known = false;
        for (int j = 0; j < b->graph->n_inputs; j++) known |= !strcmp(b->graph->input[j]->name, name);
        if (!known || a->graph->n_inputs != b->graph->n_inputs)
            return sp_fail(a->cx, SPARTA_E_USAGE,
                           "%s: its inputs (%d, \"%s\" among them) are not those of %s; compare models "
                           "with the same inputs",
                           a->path, a->graph->n_inputs, name, b->path);
    }
    return SPARTA_OK;
}

static bool is_given(const sp_verify_request *r, const char *symbol)
{
    for (int i = 0; i < r->sizes.n; i++)
        if (!strcmp(r->sizes.name[i], symbol)) return true;
    return false;
}

/* One size of every symbol: what the request says, else the round's: (1, 65), (5, 7), (67, 1) for batch and
 * sequence. */
static sparta_status round_sizes(const sp_side *s, sp_arena *arena, const sp_verify_request *r, int round,
                                 sp_bindings *out)
{
    static const int64_t batch[] = {1, 5, 67}, sequence[] = {65, 7, 1}, other[] = {3, 2, 1};
    sp_bindings filled;
    SP_TRY(sp_sizes_fill(s->cx, arena, s->graph, &r->sizes, &filled));
    SP_TRY(sp_sizes_some(s->cx, &filled));
    int64_t *value = sp_arena_array(arena, (size_t)filled.n + 1, sizeof *value);
    SP_NEED(s->cx, value);
    bool *given = sp_arena_array(arena, (size_t)filled.n + 1, sizeof *given);
    SP_NEED(s->cx, given);
    for (int i = 0; i < filled.n; i++) {
        const char *name = filled.name[i];
        given[i] = is_given(r, name);
        int64_t want = sp_symbol_counts_items(s->graph, name)    ? batch[round]
                       : sp_symbol_counts_tokens(s->graph, name) ? sequence[round]
                                                                 : other[round];
        value[i] = given[i] ? filled.value[i] : sp_symbol_within(s->graph, name, want);
    }
    *out = (sp_bindings){filled.n, filled.name, value};
    return sp_sizes_that_run(s->cx, s->graph, filled.n, filled.name, given, value);
}

#define COST 6e9 /* some ten seconds */

/* Fewer items where a run of the references would cost too much, but two at least, so that the batch of one is not all there is. */
static void limit_cost(const sp_side *a, const sp_side *b, const sp_verify_request *r,
                       const sp_bindings *sizes, int64_t *value)
{
    const double most = r->cost > 0 ? r->cost : COST;
    if (a->session && b->session) return;
    const double cost = sp_ops_cost(b->cx, b->graph, sizes); /* a's is about the same */
    for (int i = 0; i < sizes->n && cost > most; i++)
        if (sp_symbol_counts_items(b->graph, sizes->name[i]) && value[i] > 2 && !is_given(r, sizes->name[i]))
            value[i] = sp_symbol_within(b->graph, sizes->name[i],
                                        SP_MAX(2, (int64_t)((double)value[i] * most / cost)));
}

/* A model compiled with some symbols fixed takes only those sizes. */
static void fix_by(const sp_graph *other, const sp_graph *g, const sp_bindings *sizes, int64_t *value)
{
    for (int i = 0; i < g->n_inputs; i++) {
        const sp_value *in = g->input[i], *same = sp_graph_find(other, in->name);
        for (int d = 0; same && d < in->dims.rank && d < same->dims.rank; d++) {
            const char *name;
            int64_t fixed;
            if (!sp_expr_is_symbol(in->dims.dim[d], &name) || !sp_expr_is_const(same->dims.dim[d], &fixed))
                continue;
            for (int s = 0; s < sizes->n; s++)
                if (!strcmp(sizes->name[s], name)) value[s] = fixed;
        }
    }
}

static bool same_sizes(const sp_bindings *a, const sp_bindings *b)
{
    return a->n == b->n && (!a->n || !memcmp(a->value, b->value, (size_t)a->n * sizeof *a->value));
}

static sparta_status keep_sizes(sparta_ctx *cx, sp_arena *arena, const sp_bindings *sizes,
                                sp_verify_result *out)
{
    sp_text t;
    if (!sizes->n) return SPARTA_OK;
    sp_text_init(&t, cx);
    sp_sizes_print(sizes, &t);
    const char *kept = sp_text_keep(&t, arena);
    SP_NEED(cx, kept);
    out->sizes[out->n_sizes++] = kept;
    return SPARTA_OK;
}

/* Of the rounds' sizes, where any was chosen: "sizes assumed: batch=1 sequence=65, batch=5 sequence=7; options.dims sequence=N". */
static void note_sizes(const sp_side *s, const sp_verify_request *r, const sp_bindings *sizes,
                       const sp_verify_result *out)
{
    const char *varies = NULL; /* the last: of a batch and a sequence, the sequence */
    sp_text t;
    for (int i = 0; i < sizes->n; i++)
        if (!is_given(r, sizes->name[i])) varies = sizes->name[i];
    if (!varies) return;
    sp_text_init(&t, s->cx);
    for (int i = 0; i < out->n_sizes; i++) sp_text_printf(&t, "%s%s", i ? ", " : "", out->sizes[i]);
    sp_note(s->cx, "sizes assumed: %s; options.dims %s=N", sp_text_str(&t), varies);
    sp_text_free(&t);
}

static sparta_status generated(sp_side *a, sp_side *b, const sp_verify_request *r, sp_arena *arena,
                               sp_verify_result *out)
{
    sp_bindings before = {-1, NULL, NULL};
    for (int round = 0; round < 3; round++) {
        sp_bindings sizes;
        SP_TRY(round_sizes(b, arena, r, round, &sizes));
        limit_cost(a, b, r, &sizes, (int64_t *)sizes.value);
        fix_by(a->graph, b->graph, &sizes, (int64_t *)sizes.value);
        for (int i = 0; i < sizes.n; i++) /* what one side bounds, the other keeps to */
            if (!is_given(r, sizes.name[i]))
                ((int64_t *)sizes.value)[i] = sp_symbol_within(a->graph, sizes.name[i], sizes.value[i]);
        if (same_sizes(&sizes, &before)) continue;
        before = sizes;
        sp_compile_tell(&r->compile.options, round, 3, "comparing");
        SP_TRY(keep_sizes(b->cx, arena, &sizes, out));
        int n = b->graph->n_inputs;
        sparta_named_tensor *in = sp_arena_array(arena, (size_t)n + 1, sizeof *in);
        SP_NEED(b->cx, in);
        sp_make_inputs make = {r->seed + (uint64_t)round, sizes};
        SP_TRY(sp_inputs_make(b->cx, b->graph, &make, in));
        sparta_status status = compare_on(a, b, in, n, r, arena, out);
        sp_inputs_free(b->cx, in, n);
        if (status && sizes.n)
            return sp_fail_in(b->cx, "made-up inputs of %s (--dim sets other sizes)",
                              out->sizes[out->n_sizes - 1]);
        SP_TRY(status);
    }
    note_sizes(b, r, &before, out);
    return SPARTA_OK;
}

static sparta_status compare_sides(sp_side *a, sp_side *b, const sp_verify_request *r, sp_arena *arena,
                                   sp_verify_result *out)
{
    sp_verify_result result = {.ok = true, .n_outputs = b->graph->n_outputs};
    SP_TRY(same_inputs(a, b));
    result.output = sp_arena_array(arena, (size_t)result.n_outputs + 1, sizeof *result.output);
    SP_NEED(a->cx, result.output);
    for (int i = 0; i < result.n_outputs; i++) {
        const char *name = sp_arena_string(arena, b->graph->output[i]->name);
        SP_NEED(a->cx, name);
        result.output[i] = (sp_verify_output){.name = name, .cosine = 1, .ok = true};
    }
    if (r->inputs)
        SP_TRY(compare_on(a, b, r->inputs, r->n_inputs, r, arena, &result));
    else
        SP_TRY(generated(a, b, r, arena, &result));
    if (result.ok && !result.compared)
        return sp_fail(a->cx, SPARTA_E_USAGE,
                       "%s: every output is empty, so that nothing was compared; give inputs of one item or "
                       "more",
                       b->path);
    *out = result;
    return SPARTA_OK;
}

sparta_status sp_verify(sparta_ctx *cx, sp_arena *arena, const sp_verify_request *r, sp_verify_result *out)
{
    sp_side a = {.cx = cx, .path = r->a}, b = {.cx = cx, .path = r->against};
    sparta_status status = open_side(&a, r);
    if (!status) status = open_side(&b, r);
    if (!status) status = compare_sides(&a, &b, r, arena, out);
    close_side(&a);
    close_side(&b);
    return status;
}
