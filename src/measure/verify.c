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
    double *slack; /* of each, for close.h; NULL: not known, a session does not tell */
} results;

/* ------------------------------------------------------------------ sides */

static sparta_status open_package(sparta_side *s, int threads)
{
    sparta_session_options options = {sizeof options, threads, 0};
    SPARTA_TRY(sparta_package_open(s->cx, s->path, &s->package));
    s->graph = s->package->plan;
    SPARTA_TRY(sparta_package_check_weights(s->cx, s->package));
    return sparta_session_create(s->cx, s->package, &options, &s->session);
}

static sparta_status open_model(sparta_side *s, const sparta_verify_request *r)
{
    for (;;) {
        bool bind;
        SPARTA_TRY(sparta_side_model(s, r, &s->model));
        s->graph = s->model->graph;
        const sparta_status status = sparta_ops_infer_given(s->model->graph, &r->sizes, &bind);
        if (status == SPARTA_OK && (!bind || s->bound)) return sparta_compile_widen(s->model->graph);
        if (!bind || s->bound) return status;
        sparta_model_close(s->model);
        s->model = NULL;
        s->bound = true;
    }
}

static sparta_status open_side(sparta_side *s, const sparta_verify_request *r)
{
    sparta_file_kind kind;
    SPARTA_TRY(sparta_file_kind_of(s->cx, s->path, &kind));
    return kind == SPARTA_FILE_PACKAGE ? open_package(s, r->threads) : open_model(s, r);
}

static void close_side(sparta_side *s)
{
    sparta_session_free(s->session);
    sparta_package_close(s->package);
    if (s->model) sparta_model_close(s->model);
}

static void free_results(sparta_ctx *cx, results *r)
{
    for (int i = 0; i < r->n; i++) sparta_free(cx, r->tensor[i].data);
    sparta_free(cx, r->tensor);
    sparta_free(cx, r->slack);
    *r = (results){0};
}

/* A session's outputs live until its next run: keep a copy. */
static sparta_status copy_outputs(sparta_side *s, const sparta_named_tensor *out, results *to)
{
    for (int i = 0; i < s->graph->n_outputs; i++, to->n++) {
        const sparta_tensor *t = &out[i].tensor;
        SPARTA_TRY(sparta_tensor_alloc(s->cx, t->dtype, t->rank, t->dim, &to->tensor[i]));
        sparta_status status = sparta_tensor_copy(s->cx, t, &to->tensor[i]);
        if (status) {
            sparta_free(s->cx, to->tensor[i].data);
            return status;
        }
    }
    return SPARTA_OK;
}

static sparta_status run_session(sparta_side *s, const sparta_named_tensor *in, int n_in, results *to)
{
    int n = s->graph->n_outputs;
    sparta_named_tensor *out = sparta_alloc_array(s->cx, (size_t)n + 1, sizeof *out);
    SPARTA_NEED(s->cx, out);
    for (int i = 0; i < n; i++) out[i].name = s->graph->output[i]->name;
    sparta_status status = sparta_session_run(s->cx, s->session, in, n_in, out, n);
    if (!status) status = copy_outputs(s, out, to);
    sparta_free(s->cx, out);
    return status;
}

/* Outputs and their slack. */
static sparta_status run_references(sparta_ctx *cx, const sparta_graph *g, const sparta_named_tensor *in,
                                    int n_in, results *to)
{
    to->slack = sparta_alloc_array(cx, (size_t)g->n_outputs + 1, sizeof *to->slack);
    SPARTA_NEED(cx, to->slack);
    SPARTA_TRY(sparta_ops_answer(cx, g, &(sparta_answer){in, n_in, to->tensor, to->slack}));
    to->n = g->n_outputs;
    return SPARTA_OK;
}

static sparta_status run_side(sparta_side *s, const sparta_named_tensor *in, int n_in, results *to)
{
    to->tensor = sparta_alloc_array(s->cx, (size_t)s->graph->n_outputs + 1, sizeof *to->tensor);
    SPARTA_NEED(s->cx, to->tensor);
    sparta_status status =
        s->session ? run_session(s, in, n_in, to) : run_references(s->cx, s->graph, in, n_in, to);
    if (!status && !s->session) status = sparta_model_check(s->cx, s->model);
    return status ? sparta_fail_in(s->cx, "%s", s->path) : SPARTA_OK;
}

/* The slack of a package's outputs: its graph on the references. */
static sparta_status slack_of_package(sparta_side *s, const sparta_named_tensor *in, int n_in, results *to)
{
    sparta_graph *g = NULL;
    results plain = {0};
    SPARTA_TRY(sparta_compile_unplan(s->cx, s->package, &g));
    plain.tensor = sparta_alloc_array(s->cx, (size_t)g->n_outputs + 1, sizeof *plain.tensor);
    sparta_status status = plain.tensor ? sparta_ops_infer(g) : sparta_ctx_status(s->cx);
    if (!status) status = run_references(s->cx, g, in, n_in, &plain);
    if (!status) {
        to->slack = plain.slack;
        plain.slack = NULL;
    }
    free_results(s->cx, &plain);
    sparta_graph_free(g);
    return status;
}

/* ------------------------------------------------------------------ comparing */

static int output_named(const sparta_graph *g, const char *name)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (!strcmp(g->output[i]->name, name)) return i;
    return -1;
}

/* Keep the worst of all sizes; what differs once differs. */
static void keep_worst(sparta_verify_output *worst, const sparta_closeness *one)
{
    if (worst->ok) worst->allowed = one->allowed;
    worst->max_abs = fmax(worst->max_abs, one->max_abs);
    worst->max_rel = fmax(worst->max_rel, one->max_rel);
    worst->cosine = fmin(worst->cosine, one->cosine);
    worst->ok &= one->ok;
}

/* What is compared at one size. */
typedef struct pair {
    sparta_side *a, *b;
    const sparta_named_tensor *in;
    int n_in;
    results ra, rb;
} pair;

/* One output; the slack is the reference's, b's, or else a's. Between two packages it is only looked for when it matters. */
static sparta_status compare_output(pair *p, int at, int i, const sparta_tolerance *t, sparta_closeness *out)
{
    const double *slack = p->rb.slack ? &p->rb.slack[i] : p->ra.slack ? &p->ra.slack[at] : NULL;
    const sparta_tensor *a = &p->ra.tensor[at], *b = &p->rb.tensor[i];
    if (sparta_close(a, b, t, slack ? *slack : 0, out) || slack || t->atol >= 0) return SPARTA_OK;
    SPARTA_TRY(slack_of_package(p->b, p->in, p->n_in, &p->rb));
    sparta_close(a, b, t, p->rb.slack[i], out);
    return SPARTA_OK;
}

static sparta_status compare(pair *p, const sparta_tolerance *t, sparta_verify_result *out)
{
    for (int i = 0; i < p->b->graph->n_outputs; i++) {
        int at = output_named(p->a->graph, p->b->graph->output[i]->name);
        sparta_closeness one;
        if (at < 0)
            return sparta_fail(p->a->cx, SPARTA_E_USAGE,
                               "%s: has no output \"%s\", which %s has; compare models with the same outputs",
                               p->a->path, out->output[i].name, p->b->path);
        SPARTA_TRY(compare_output(p, at, i, t, &one));
        keep_worst(&out->output[i], &one);
        out->ok &= one.ok;
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ one size, many sizes */

static sparta_status compare_on(sparta_side *a, sparta_side *b, const sparta_named_tensor *in, int n_in,
                                const sparta_verify_request *r, sparta_arena *arena,
                                sparta_verify_result *out)
{
    pair p = {.a = a, .b = b, .in = in, .n_in = n_in};
    bool was_ok = out->ok;
    sparta_status status = run_side(a, in, n_in, &p.ra);
    if (!status) status = run_side(b, in, n_in, &p.rb);
    if (!status) status = compare(&p, &r->tolerance, out);
    free_results(a->cx, &p.ra);
    free_results(a->cx, &p.rb);
    if (!status && was_ok && !out->ok) status = sparta_first_difference(a, b, in, n_in, r, arena, out);
    return status;
}

static sparta_status same_inputs(const sparta_side *a, const sparta_side *b)
{
    for (int i = 0; i < a->graph->n_inputs; i++) {
        const char *name = a->graph->input[i]->name;
        bool known = false;
        for (int j = 0; j < b->graph->n_inputs; j++) known |= !strcmp(b->graph->input[j]->name, name);
        if (!known || a->graph->n_inputs != b->graph->n_inputs)
            return sparta_fail(a->cx, SPARTA_E_USAGE,
                               "%s: its inputs (%d, \"%s\" among them) are not those of %s; compare models "
                               "with the same inputs",
                               a->path, a->graph->n_inputs, name, b->path);
    }
    return SPARTA_OK;
}

static bool is_given(const sparta_verify_request *r, const char *symbol)
{
    for (int i = 0; i < r->sizes.n; i++)
        if (!strcmp(r->sizes.name[i], symbol)) return true;
    return false;
}

/* One size of every symbol: what the request says, else the round's: (1, 65), (5, 7), (67, 1) for batch and
 * sequence. */
static sparta_status round_sizes(const sparta_side *s, sparta_arena *arena, const sparta_verify_request *r,
                                 int round, sparta_bindings *out)
{
    static const int64_t batch[] = {1, 5, 67}, sequence[] = {65, 7, 1}, other[] = {3, 2, 1};
    sparta_bindings filled;
    SPARTA_TRY(sparta_sizes_fill(s->cx, arena, s->graph, &r->sizes, &filled));
    SPARTA_TRY(sparta_sizes_some(s->cx, &filled));
    int64_t *value = sparta_arena_array(arena, (size_t)filled.n + 1, sizeof *value);
    SPARTA_NEED(s->cx, value);
    bool *given = sparta_arena_array(arena, (size_t)filled.n + 1, sizeof *given);
    SPARTA_NEED(s->cx, given);
    for (int i = 0; i < filled.n; i++) {
        const char *name = filled.name[i];
        given[i] = is_given(r, name);
        int64_t want = strstr(name, "batch") ? batch[round]
                       : strstr(name, "seq") ? sequence[round]
                                             : other[round];
        value[i] = given[i] ? filled.value[i] : SPARTA_MIN(want, sparta_symbol_bound(s->graph, name));
    }
    *out = (sparta_bindings){filled.n, filled.name, value};
    return sparta_sizes_that_run(s->cx, s->graph, filled.n, filled.name, given, value);
}

#define COST 6e9 /* some ten seconds */

/* Fewer items where a run of the references would cost too much, but two at least, so that the batch of one is not all there is. */
static sparta_status limit_cost(const sparta_side *a, const sparta_side *b, const sparta_verify_request *r,
                                const sparta_bindings *sizes, int64_t *value)
{
    const double most = r->cost > 0 ? r->cost : COST;
    double cost;
    if (a->session && b->session) return SPARTA_OK;
    SPARTA_TRY(sparta_ops_cost(b->cx, b->graph, sizes, &cost)); /* a's is about the same */
    for (int i = 0; i < sizes->n && cost > most; i++)
        if (strstr(sizes->name[i], "batch") && value[i] > 2 && !is_given(r, sizes->name[i]))
            value[i] = SPARTA_MAX(2, (int64_t)((double)value[i] * most / cost));
    return SPARTA_OK;
}

/* A model compiled with some symbols fixed takes only those sizes. */
static void fix_by(const sparta_graph *other, const sparta_graph *g, const sparta_bindings *sizes,
                   int64_t *value)
{
    for (int i = 0; i < g->n_inputs; i++) {
        const sparta_value *in = g->input[i], *same = sparta_graph_find(other, in->name);
        for (int d = 0; same && d < in->dims.rank && d < same->dims.rank; d++) {
            const char *name;
            int64_t fixed;
            if (!sparta_expr_is_symbol(in->dims.dim[d], &name) ||
                !sparta_expr_is_const(same->dims.dim[d], &fixed))
                continue;
            for (int s = 0; s < sizes->n; s++)
                if (!strcmp(sizes->name[s], name)) value[s] = fixed;
        }
    }
}

static bool same_sizes(const sparta_bindings *a, const sparta_bindings *b)
{
    return a->n == b->n && (!a->n || !memcmp(a->value, b->value, (size_t)a->n * sizeof *a->value));
}

static sparta_status keep_sizes(sparta_ctx *cx, sparta_arena *arena, const sparta_bindings *sizes,
                                sparta_verify_result *out)
{
    sparta_text t;
    if (!sizes->n) return SPARTA_OK;
    sparta_text_init(&t, cx);
    sparta_sizes_print(sizes, &t);
    const char *kept = t.status ? NULL : sparta_arena_string(arena, sparta_text_str(&t));
    sparta_text_free(&t);
    SPARTA_NEED(cx, kept);
    out->sizes[out->n_sizes++] = kept;
    return SPARTA_OK;
}

static sparta_status generated(sparta_side *a, sparta_side *b, const sparta_verify_request *r,
                               sparta_arena *arena, sparta_verify_result *out)
{
    sparta_bindings before = {-1, NULL, NULL};
    for (int round = 0; round < 3; round++) {
        sparta_bindings sizes;
        SPARTA_TRY(round_sizes(b, arena, r, round, &sizes));
        SPARTA_TRY(limit_cost(a, b, r, &sizes, (int64_t *)sizes.value));
        fix_by(a->graph, b->graph, &sizes, (int64_t *)sizes.value);
        for (int i = 0; i < sizes.n; i++) /* what one side bounds, the other keeps to */
            if (!is_given(r, sizes.name[i]))
                ((int64_t *)sizes.value)[i] =
                    SPARTA_MIN(sizes.value[i], sparta_symbol_bound(a->graph, sizes.name[i]));
        if (same_sizes(&sizes, &before)) continue;
        before = sizes;
        if (r->compile.progress) r->compile.progress(r->compile.progress_arg, round, 3, "comparing");
        SPARTA_TRY(keep_sizes(b->cx, arena, &sizes, out));
        int n = b->graph->n_inputs;
        sparta_named_tensor *in = sparta_arena_array(arena, (size_t)n + 1, sizeof *in);
        SPARTA_NEED(b->cx, in);
        sparta_make_inputs make = {r->seed + (uint64_t)round, sizes};
        SPARTA_TRY(sparta_inputs_make(b->cx, b->graph, &make, in));
        sparta_status status = compare_on(a, b, in, n, r, arena, out);
        sparta_inputs_free(b->cx, in, n);
        SPARTA_TRY(status);
    }
    return SPARTA_OK;
}

static sparta_status compare_sides(sparta_side *a, sparta_side *b, const sparta_verify_request *r,
                                   sparta_arena *arena, sparta_verify_result *out)
{
    sparta_verify_result result = {.ok = true, .n_outputs = b->graph->n_outputs};
    SPARTA_TRY(same_inputs(a, b));
    result.output = sparta_arena_array(arena, (size_t)result.n_outputs + 1, sizeof *result.output);
    SPARTA_NEED(a->cx, result.output);
    for (int i = 0; i < result.n_outputs; i++) {
        const char *name = sparta_arena_string(arena, b->graph->output[i]->name);
        SPARTA_NEED(a->cx, name);
        result.output[i] = (sparta_verify_output){.name = name, .cosine = 1, .ok = true};
    }
    if (r->inputs)
        SPARTA_TRY(compare_on(a, b, r->inputs, r->n_inputs, r, arena, &result));
    else
        SPARTA_TRY(generated(a, b, r, arena, &result));
    *out = result;
    return SPARTA_OK;
}

sparta_status sparta_verify(sparta_ctx *cx, sparta_arena *arena, const sparta_verify_request *r,
                            sparta_verify_result *out)
{
    sparta_side a = {.cx = cx, .path = r->a}, b = {.cx = cx, .path = r->against};
    sparta_status status = open_side(&a, r);
    if (!status) status = open_side(&b, r);
    if (!status) status = compare_sides(&a, &b, r, arena, out);
    close_side(&a);
    close_side(&b);
    return status;
}
