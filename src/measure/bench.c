/* bench: two subjects alternately in one run.
 *
 *   open both -> warm up -> A B A B ... timed, nothing else runs -> A B A B ... profiled -> numbers
 *
 * The peak of the machine is measured before and after the timed part; the better one counts, so that a share
 * of peak is never flattered by a slow moment. Profiling has sessions of its own, since taking the time of
 * every step costs time itself. With several sessions at a time (load.c) the turns are windows in which all of one side run. */
#include "measure/load.h"
#include "implement/implement.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct bench {
    sparta_ctx *cx;
    sp_arena *arena;
    const sp_bench_request *r;
    sp_bindings said, sizes, sizes_b; /* said: of the subject's sizes, those that somebody gave */
    sp_runner a, b;                   /* b.cx NULL: no baseline */
    sp_runner profiled_a, profiled_b;
    sp_samples times_a, times_b;
    sp_load *load_a, *load_b;    /* of several sessions */
    sp_samples rates_a, rates_b; /* seconds a run of theirs takes, all sessions together, window by window */
    bool agrees;                 /* with the peer */
    double profiled;             /* mean of the profiled runs of a, seconds */
    double peak;                 /* operations a second */
    bool cut;                    /* it was interrupted */
} bench;

enum { PAIRS = 5 }; /* fewer say nothing about a ratio */

/* ------------------------------------------------------------------ times */

static sparta_status measure(bench *s)
{
    const sp_bench_request *r = s->r;
    if (s->load_a)
        return sp_load_alternate(s->arena, s->load_a, s->load_b, r, &s->times_a, &s->times_b, &s->rates_a,
                                 &s->rates_b);
    const sp_alternation how = {r->warmup, r->iterations, r->seconds, &r->compile.options};
    return sp_runner_alternate(s->arena, &s->a, s->b.cx ? &s->b : NULL, &how, &s->times_a, &s->times_b);
}

static void measure_peak(bench *s)
{
    sp_target target;
    if (!sp_target_parse(sparta_session_isa(s->a.session), &target)) target = sp_target_best(SP_DEVICE_CPU);
    double peak = sp_peak_flops(target, sparta_session_threads(s->a.session), 0.1);
    s->peak = SP_MAX(s->peak, peak);
}

/* One profiled run tells the operations; --profile takes a fifth of the time, at least five rounds. */
static sparta_status profile(bench *s, bool with_b)
{
    double spent = 0, spent_a = 0, share = s->r->iterations > 0 ? 0 : s->r->seconds * 0.4;
    for (int round = 0; round < 1 || (s->r->profile && (round <= 5 || spent < share)); round++) {
        double a = 0, b = 0;
        SP_TRY(sp_runner_run(&s->profiled_a, &a));
        if (with_b) SP_TRY(sp_runner_run(&s->profiled_b, &b));
        if (round == 0) { /* the first run lays out buffers and wakes threads: not counted */
            if (s->r->profile) sparta_session_forget_times(s->profiled_a.session);
            if (s->r->profile && with_b) sparta_session_forget_times(s->profiled_b.session);
            continue;
        }
        spent += a + b;
        spent_a += a;
        s->profiled = spent_a / round;
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ numbers */

/* A peer does not say where its time goes. */
static bool profiles_both(const bench *s)
{
    return s->b.cx && !s->b.peer && s->r->profile;
}

static int64_t items(const sp_graph *g, const sp_bindings *sizes)
{
    for (int i = 0; i < sizes->n; i++)
        if (sp_symbol_counts_items(g, sizes->name[i])) return sizes->value[i];
    return 1;
}

static sparta_status fill_subject(bench *s, const char *name, const sp_runner *r, const sp_samples *t,
                                  double each, sp_bench_subject *out)
{
    sp_summary times;
    SP_TRY(sp_summarise(s->cx, t->x, t->n, &times));
    snprintf(out->name, sizeof out->name, "%s", name);
    out->median = times.median;
    out->p90 = times.p90;
    out->p99 = times.p99;
    out->best = times.best;
    out->runs = t->n;
    out->times = t->x;
    const sp_bindings *sizes = r == &s->a ? &s->sizes : &s->sizes_b;
    const sp_graph *g = r->package ? r->package->plan : s->a.package->plan; /* a peer runs the same model */
    out->items_per_s = each > 0 ? (double)items(g, sizes) / each : 0;
    out->memory = r->peer ? 0 : sp_session_memory(r->session) + sp_runner_bytes(r);
    return SPARTA_OK;
}

static const char *copy(bench *s, const char *text)
{
    const char *c = sp_arena_string(s->arena, text ? text : "");
    return c ? c : "";
}

/* Names alone do not tell nodes apart: exporters leave some without one. */
static bool same_node(const sparta_step *a, const char *name, const char *op)
{
    return !strcmp(a->name, name) && !strcmp(a->op, op);
}

/* What is said of a step. Steps and layers follow the order of the plan, so each search goes on after the last find. */
static const sp_layer *layer_of(const sparta_step *p, const sp_node *node, const sp_layer *layer, int n,
                                int *at)
{
    for (int i = *at; i < n; i++) {
        bool unnamed = !*p->name && !strcmp(layer[i].name, node->out[0]->name) && !strcmp(layer[i].op, p->op);
        if (!unnamed && !same_node(p, layer[i].name, layer[i].op)) continue;
        *at = i + 1;
        return &layer[i];
    }
    return NULL;
}

/* The time of step `at` of a in the other profile: of several that look alike, the one that is as far down. */
static double baseline_ms(const sparta_step *a, int at, const sparta_step *b, int n)
{
    int before = 0;
    for (int i = 0; i < at; i++) before += same_node(&a[i], a[at].name, a[at].op);
    for (int i = 0; i < n; i++)
        if (same_node(&b[i], a[at].name, a[at].op) && before-- == 0) return b[i].seconds * 1e3;
    return 0;
}

/* A node without a name is called by its output; when the passes made that up as well ("%4"), by what it reads. */
static const char *name_of(bench *s, const sparta_step *p, const sp_node *n)
{
    if (*p->name) return copy(s, p->name);
    if (n->n_out && n->out[0] && n->out[0]->name[0] != '%') return copy(s, n->out[0]->name);
    const char *of = n->n_in && n->in[0] ? n->in[0]->name : "nothing";
    const char *name = sp_arena_printf(s->arena, "%s of %s", p->op, of);
    return name ? name : "";
}

static void fill_layer(bench *s, const sparta_step *p, const sp_layer *said, sp_bench_layer *out)
{
    *out = (sp_bench_layer){.op = copy(s, p->op), .implement = copy(s, p->implement), .density = NAN};
    out->pattern = said ? copy(s, said->pattern) : "";
    out->reason = said ? copy(s, said->reason) : "";
    out->source = said && !strcmp(said->source, "model") && said->us > 0 ? "model" : "measured";
    if (said && said->n) out->density = said->density;
    out->ms = p->seconds * 1e3;
    const sp_implement *im = sp_implement_find(p->implement);
    const bool counted = !im || !im->skips; /* what it skips only it knows */
    out->gops_real = p->seconds > 0 && counted ? p->ops / p->seconds * 1e-9 : 0;
    out->share_of_peak = s->peak > 0 ? out->gops_real * 1e9 / s->peak : 0;
}

/* Nodes that a generated kernel does with others have their time where it runs. */
static bool done_elsewhere(const sparta_step *step, const sp_node *n)
{
    const sp_implement *im = sp_implement_find(step->implement);
    return im && sp_implement_generates(im) && !sp_attr_find(&n->attrs, "nest");
}

/* Of the plan that runs: of what its products would take dense, how much goes to sparse implements. */
static double sparse_share(const sparta_step *step, int n)
{
    double sparse = 0, all = 0;
    for (int i = 0; i < n; i++) {
        const sp_implement *im = sp_implement_find(step[i].implement);
        if (im && im->sparse) sparse += step[i].dense_ops;
        all += step[i].dense_ops;
    }
    return all > 0 ? sparse / all : 0;
}

static sparta_status fill_layers(bench *s, bool with_b, sp_bench_result *out)
{
    const sparta_step *p = NULL, *q = NULL;
    sp_layer *said = NULL;
    int n_said = 0, at = 0, m = 0, n = sp_session_steps(s->profiled_a.session, &p);
    if (with_b) m = sp_session_steps(s->profiled_b.session, &q);
    SP_TRY(sp_compile_layers(s->cx, s->arena, sp_session_plan(s->profiled_a.session),
                             s->r->compile.options.db, NULL, &said, &n_said));
    out->layer = sp_arena_array(s->arena, (size_t)n + 1, sizeof *out->layer);
    SP_NEED(s->cx, out->layer);
    int layers = 0;
    for (int i = 0; i < n; i++) {
        const sp_node *node = sp_session_node(s->profiled_a.session, i);
        if (done_elsewhere(&p[i], node)) continue;
        sp_bench_layer *layer = &out->layer[layers++];
        fill_layer(s, &p[i], layer_of(&p[i], node, said, n_said, &at), layer);
        layer->name = name_of(s, &p[i], node);
        if (with_b) layer->baseline_ms = baseline_ms(p, i, q, m);
        out->layers_ms += layer->ms;
    }
    out->n_layers = s->r->profile ? layers : 0;
    return SPARTA_OK;
}

static const char *baseline_name(const bench *s)
{
    if (s->b.peer) return sp_peer_name(s->b.peer);
    return s->r->against ? s->r->against : "the model as it was given, dense";
}

/* One session is compared by its runs, several by how many they do together. Who interrupts may leave one without its other half, or too few of
 * them. */
static sparta_status fill_times(bench *s, sp_bench_result *out)
{
    const sp_samples *a = s->load_a ? &s->rates_a : &s->times_a, *b = s->load_a ? &s->rates_b : &s->times_b;
    const int64_t pairs = SP_MIN(a->n, b->n);
    const bool two = s->b.cx && (!s->cut || pairs >= PAIRS);
    sp_comparison c = {.noisy = false};
    if (two)
        SP_TRY(sp_compare(s->cx, a->x, b->x, pairs, s->r->seed + 1, &c));
    else
        SP_TRY(sp_summarise(s->cx, a->x, a->n, &c.a));
    SP_TRY(fill_subject(s, s->r->subject, &s->a, &s->times_a, c.a.median, &out->subject));
    out->noisy = c.noisy || c.a.noisy;
    out->compared = s->b.peer != NULL && !s->cut;
    out->agrees = s->agrees;
    if (!two) return SPARTA_OK;
    out->ratio = c.ratio;
    out->ratio_lo = c.lo;
    out->ratio_hi = c.hi;
    return fill_subject(s, baseline_name(s), &s->b, &s->times_b, c.b.median, &out->baseline);
}

/* A session of the subject that has run at these sizes. */
static sparta_session *that_ran(const bench *s)
{
    return !s->cut ? s->profiled_a.session : s->load_a ? sp_load_session(s->load_a) : s->a.session;
}

static sparta_status fill(bench *s, sp_bench_result *out)
{
    sp_bench_result result = {.threads = sparta_session_threads(s->a.session),
                              .concurrency = SP_MAX(s->r->concurrency, 1),
                              .sizes = s->sizes,
                              .complete = !s->cut,
                              .profiled_ms = s->profiled * 1e3,
                              .peak_gops = s->peak * 1e-9};
    const sparta_package *p = s->a.package;
    const sparta_step *step;
    if (p->parameters_left < p->parameters_given)
        result.parameters_given = p->parameters_given, result.parameters_left = p->parameters_left;
    snprintf(result.isa, sizeof result.isa, "%s", sparta_session_isa(s->a.session));
    SP_TRY(fill_times(s, &result));
    const int steps = sp_session_steps(that_ran(s), &step);
    result.sparse_flop_share = sparse_share(step, steps);
    if (!s->cut) SP_TRY(fill_layers(s, profiles_both(s), &result));
    *out = result;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ another library on the other side */

/* It runs ONNX files: the subject, or the one that a package was made of. */
static sparta_status peer_model(const bench *s, const char **out)
{
    sparta_file_kind kind;
    *out = s->r->model;
    if (*out) return SPARTA_OK;
    SP_TRY(sparta_file_kind_of(s->cx, s->r->subject, &kind));
    *out = s->r->subject;
    if (kind == SPARTA_FILE_ONNX) return SPARTA_OK;
    return sp_fail(
        s->cx, SPARTA_E_USAGE,
        "bench: %s is no ONNX file, and %s runs those only; give the model that it was made of with "
        "--model M.onnx",
        s->r->subject, s->r->against);
}

static sparta_status open_peer(bench *s)
{
    sp_peer_model m = {.library = s->r->against,
                       .threads = sparta_session_threads(s->a.session),
                       .in = s->a.in,
                       .n_in = s->a.n_in,
                       .out = s->a.out,
                       .n_out = s->a.n_out};
    SP_TRY(peer_model(s, &m.path));
    sp_compile_tell(&s->r->compile.options, 0, 100, "starting the other library");
    return sp_peer_open(s->cx, &m, &s->b.peer);
}

/* Another answer is no reason to keep the times back, but has to be said. */
static sparta_status compare_answers(bench *s)
{
    enum { SAID = 200 };
    s->agrees = true;
    for (int i = 0; i < s->a.n_out; i++) {
        sparta_tensor theirs;
        sp_closeness found;
        SP_TRY(sp_peer_output(s->b.peer, i, &theirs));
        const bool close = sp_close(&s->a.out[i].tensor, &theirs, &(sp_tolerance){1e-3, 1e-5}, 0, &found);
        sp_free(s->cx, theirs.data);
        if (!close)
            sp_note(s->cx,
                    "bench: output '%.*s' is not that of %s: they differ by %.3g; sparta verify compares "
                    "A with the model",
                    SAID, s->a.out[i].name, sp_peer_name(s->b.peer), found.max_abs);
        s->agrees = s->agrees && close;
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the run */

static bool wants_peer(const bench *s)
{
    return sp_peer_known(s->r->against);
}

/* A model that cannot be compiled for all sizes is for those that are given. */
static sparta_status open_sized(bench *s, const char *path, sp_runner *out)
{
    const sp_bindings *sizes = &s->r->sizes;
    sparta_status status = sp_runner_open(s->cx, path, &s->r->compile, out);
    if ((status != SPARTA_E_SHAPE && status != SPARTA_E_UNSUPPORTED) || !sizes->n) return status;
    sp_compile_request fixed = s->r->compile;
    const char **dims = sp_arena_array(s->arena, (size_t)sizes->n + 1, sizeof *dims);
    SP_NEED(s->cx, dims);
    for (int i = 0; i < sizes->n; i++) {
        dims[i] = sp_arena_printf(s->arena, "%s=%lld", sizes->name[i], (long long)sizes->value[i]);
        SP_NEED(s->cx, dims[i]);
    }
    fixed.options.dims = dims;
    return sp_runner_open(s->cx, path, &fixed, out);
}

/* Every size of a subject: as it is said, as the inputs have it, or the usual one. */
static sparta_status sizes_of(bench *s, const sp_runner *of, sp_bindings *said, sp_bindings *out)
{
    const sp_graph *g = of->package->plan;
    SP_TRY(sp_runner_sizes(s->cx, s->arena, g, &s->r->sizes, s->r->inputs, s->r->n_inputs, said));
    return sp_sizes_fill(s->cx, s->arena, g, said, out);
}

static sparta_status open_both(bench *s)
{
    const sp_bench_request *r = s->r;
    const char *model;
    if (wants_peer(s)) SP_TRY(peer_model(s, &model)); /* before minutes of work */
    SP_TRY(open_sized(s, r->subject, &s->a));
    SP_TRY(sizes_of(s, &s->a, &s->said, &s->sizes));
    SP_TRY(sp_sizes_some(s->cx, &s->sizes));
    if (r->no_baseline) return SPARTA_OK;
    if (!r->against) {
        sp_compile_tell(&r->compile.options, 0, 100, "the dense baseline");
        s->sizes_b = s->sizes;
        return sp_runner_dense(s->cx, &s->a, &s->sizes, &r->compile, r->seed, &s->b);
    }
    if (wants_peer(s)) {
        s->sizes_b = s->sizes;
        s->b = (sp_runner){.cx = s->cx};
        return SPARTA_OK;
    }
    SP_TRY(open_sized(s, r->against, &s->b));
    return sizes_of(s, &s->b, &(sp_bindings){0}, &s->sizes_b);
}

/* Sessions that run at the same time share the cores, unless somebody says how many threads each has. */
static int threads_of(const bench *s)
{
    const int n = s->r->concurrency;
    return s->r->threads || n <= 1 ? s->r->threads : SP_MAX(1, sp_cores() / n);
}

static sparta_status start(bench *s, const sp_runner_start *a, const sp_runner_start *b)
{
    const int n = s->r->concurrency;
    SP_TRY(sp_runner_start_session(&s->a, a));
    if (wants_peer(s))
        SP_TRY(open_peer(s));
    else if (s->b.cx)
        SP_TRY(sp_runner_start_session(&s->b, b));
    if (n <= 1) return SPARTA_OK;
    SP_TRY(sp_load_open(s->cx, &s->a, n, a, &s->load_a));
    return s->b.cx ? sp_load_open(s->cx, &s->b, n, b, &s->load_b) : SPARTA_OK;
}

static sparta_status time_steps(bench *s, sp_runner_start a, sp_runner_start b, bool with_b)
{
    a.profile = b.profile = true;
    s->profiled_a = sp_runner_share(&s->a);
    SP_TRY(sp_runner_start_session(&s->profiled_a, &a));
    if (!with_b) return profile(s, false);
    s->profiled_b = sp_runner_share(&s->b);
    SP_TRY(sp_runner_start_session(&s->profiled_b, &b));
    return profile(s, true);
}

static sparta_status run(bench *s)
{
    const sp_runner_start a = {.threads = threads_of(s),
                               .seed = s->r->seed,
                               .sizes = &s->sizes,
                               .inputs = s->r->inputs,
                               .n_inputs = s->r->n_inputs};
    sp_runner_start b = a;
    b.sizes = &s->sizes_b;
    SP_TRY(start(s, &a, &b));
    measure_peak(s);
    SP_TRY(measure(s));
    measure_peak(s);
    if (s->b.peer) SP_TRY(compare_answers(s));
    return time_steps(s, a, b, profiles_both(s));
}

/* What is no file, and no library, is told before minutes of work. */
static sparta_status check_against(sparta_ctx *cx, const char *against)
{
    sparta_file_kind kind;
    if (sp_peer_known(against)) return SPARTA_OK;
    const char *near = access(against, F_OK) ? sp_peer_near(against) : NULL;
    if (!near) return sparta_file_kind_of(cx, against, &kind);
    return sp_fail(cx, SPARTA_E_USAGE, "bench: there is no file '%.200s'; did you mean %s?", against, near);
}

static sparta_status check_request(sparta_ctx *cx, const sp_bench_request *r)
{
    if (r->model && !sp_peer_known(r->against))
        return sp_fail(cx, SPARTA_E_USAGE,
                       "bench: a model that the package was made of is for another library; give --against "
                       "onnxruntime, or leave --model out");
    if (r->against) SP_TRY(check_against(cx, r->against));
    if (r->concurrency > 1 && (r->iterations || sp_peer_known(r->against)))
        return sp_fail(
            cx, SPARTA_E_USAGE,
            "bench: several sessions at a time are measured for a time and against ours only; leave "
            "--iterations and an --against that is another library out");
    return SPARTA_OK;
}

sparta_status sp_bench(sparta_ctx *cx, sp_arena *arena, const sp_bench_request *r, sp_bench_result *out)
{
    bench s = {.cx = cx, .arena = arena, .r = r};
    SP_TRY(check_request(cx, r));
    sparta_status status = open_both(&s);
    if (!status) status = run(&s);
    s.cut = status == SPARTA_E_CANCELLED;
    if (s.cut) *out = (sp_bench_result){.complete = false};
    if (!status || (s.cut && (s.load_a ? s.rates_a.n : s.times_a.n))) {
        const sparta_status filled = fill(&s, out);
        if (!s.cut) status = filled;
    }
    if (!status) sp_sizes_note(cx, &s.said, &s.sizes);
    sp_load_close(s.load_b);
    sp_load_close(s.load_a);
    sp_runner_close(&s.profiled_b);
    sp_runner_close(&s.profiled_a);
    sp_runner_close(&s.b); /* before a, whose weights it borrows */
    sp_runner_close(&s.a);
    return status;
}
