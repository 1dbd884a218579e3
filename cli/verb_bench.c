/* sparta bench: how much faster, how sure, and where the time goes. */
#include "verbs.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct points { /* of a sweep */
    int n;
    int told;
    bool many;
    cli_json json;
    cli_table table;  /* one line a point */
    cli_table layers; /* of all points; for --table */
    sp_text times;    /* for --export-times */
    cli_json times_json;
} points;

/* ------------------------------------------------------------------ JSON */

static void subject_json(cli_json *j, const char *key, const sp_bench_subject *s)
{
    cli_json_open(j, key, '{');
    cli_json_text(j, "name", s->name);
    cli_json_real(j, "median_ms", s->median * 1e3);
    cli_json_real(j, "best_ms", s->best * 1e3);
    cli_json_real(j, "p90_ms", s->p90 * 1e3);
    cli_json_real(j, "p99_ms", s->p99 * 1e3);
    cli_json_real(j, "items_per_s", s->items_per_s);
    cli_json_int(j, "runs", s->runs);
    cli_json_int(j, "bytes", (int64_t)s->memory);
    cli_json_close(j, '}');
}

static void layer_json(cli_json *j, const sp_bench_layer *l)
{
    cli_json_open(j, NULL, '{');
    cli_json_text(j, "name", l->name);
    cli_json_text(j, "op", l->op);
    cli_json_real(j, "ms", l->ms);
    cli_json_real(j, "baseline_ms", l->baseline_ms > 0 ? l->baseline_ms : NAN);
    cli_json_text(j, "implement", l->implement);
    cli_json_text(j, "pattern", l->pattern);
    cli_json_real(j, "density", l->density);
    cli_json_real(j, "gops_real", l->gops_real);
    cli_json_real(j, "share_of_peak", l->share_of_peak);
    cli_json_words(j, "reason", l->reason);
    cli_json_text(j, "source", l->source);
    cli_json_close(j, '}');
}

static void result_json(cli_json *j, const char *point, const sp_bench_result *r)
{
    if (*point) cli_json_text(j, "point", point);
    subject_json(j, "subject", &r->subject);
    if (r->baseline.runs) {
        subject_json(j, "baseline", &r->baseline);
        cli_json_real(j, "ratio", r->ratio);
        cli_json_range(j, "ratio_ci95", r->ratio_lo, r->ratio_hi);
    } else {
        cli_json_text(j, "baseline", NULL);
        cli_json_text(j, "ratio", NULL);
        cli_json_text(j, "ratio_ci95", NULL);
    }
    cli_json_bool(j, "noisy", r->noisy);
    cli_json_bool(j, "complete", r->complete);
    if (r->compared) cli_json_bool(j, "answers_agree", r->agrees);
    cli_json_int(j, "concurrency", r->concurrency);
    cli_json_int(j, "threads", r->threads);
    cli_json_text(j, "isa", r->isa);
    cli_json_sizes(j, &r->sizes);
    cli_json_real(j, "peak_gops", r->peak_gops);
    cli_json_real(j, "sparse_flop_share", r->sparse_flop_share);
    cli_json_real(j, "layers_ms", r->n_layers ? r->layers_ms : NAN);
    cli_json_real(j, "profiled_ms", r->n_layers ? r->profiled_ms : NAN);
    cli_json_open(j, "layers", '[');
    for (int i = 0; i < r->n_layers; i++) layer_json(j, &r->layer[i]);
    cli_json_close(j, ']');
}

/* ------------------------------------------------------------------ people */

static void verdict(cli *c, const sp_bench_result *r)
{
    const char *than = r->baseline.name;
    if (!r->baseline.runs)
        cli_say(c, "%s: %.3f ms", r->subject.name, r->subject.median * 1e3);
    else if (r->ratio_lo > 1)
        cli_say(c, "%s: %.2fx faster than %s (95 %% interval %.2f to %.2f)", r->subject.name, r->ratio, than,
                r->ratio_lo, r->ratio_hi);
    else if (r->ratio_hi < 1)
        cli_say(c, "%s: slower than %s, %.2fx its speed (95 %% interval %.2f to %.2f)", r->subject.name, than,
                r->ratio, r->ratio_lo, r->ratio_hi);
    else
        cli_say(c, "%s: no difference to %s, %.2fx (95 %% interval %.2f to %.2f)", r->subject.name, than,
                r->ratio, r->ratio_lo, r->ratio_hi);
}

static void summary_row(cli_table *t, const sp_bench_subject *s)
{
    cli_table_text(t, s->name);
    cli_table_real(t, 3, s->median * 1e3);
    cli_table_real(t, 3, s->best * 1e3);
    cli_table_real(t, 3, s->p90 * 1e3);
    cli_table_real(t, 3, s->p99 * 1e3);
    cli_table_real(t, 1, s->items_per_s);
    cli_table_int(t, s->runs);
}

static sparta_status summary(cli *c, const sp_bench_result *r)
{
    static const char *const names[] = {"subject", "median_ms",   "best_ms", "p90_ms",
                                        "p99_ms",  "items_per_s", "runs"};
    sp_text sizes;
    sp_text_init(&sizes, c->cx);
    sp_sizes_print(&r->sizes, &sizes);
    verdict(c, r);
    if (r->concurrency > 1)
        cli_say(c, "\n%d sessions at a time: the ratio is that of their throughputs, times are latencies",
                r->concurrency);
    cli_say(c, "\nat %s%s%d thread%s, %s; %.0f %% of the products' operations sparse, peak %.1f Gop/s\n",
            sp_text_str(&sizes), r->sizes.n ? ", " : "", r->threads, r->threads == 1 ? "" : "s", r->isa,
            r->sparse_flop_share * 100, r->peak_gops);
    sp_text_free(&sizes);
    if (r->parameters_left < r->parameters_given)
        cli_say(c, "%.2f M of %.2f M parameters went before anything ran, and their operations with them\n",
                (double)(r->parameters_given - r->parameters_left) * 1e-6,
                (double)r->parameters_given * 1e-6);
    if (!r->complete) cli_say(c, "interrupted: these are the runs until then\n");
    cli_table t = cli_table_begin(c, (int)SP_COUNT(names), names);
    summary_row(&t, &r->subject);
    if (r->baseline.runs) summary_row(&t, &r->baseline);
    return cli_table_end(&t);
}

static const char *const layer_names[] = {"point",     "layer",     "op",    "pattern",
                                          "density",   "implement", "ms",    "baseline_ms",
                                          "gops_real", "%_of_peak", "reason"};

/* What is no product has no density, no operations and no share of the peak. */
static void layer_row(cli_table *t, const sp_bench_layer *l)
{
    bool product = l->gops_real > 0;
    cli_table_text(t, l->name);
    cli_table_text(t, l->op);
    cli_table_text(t, isnan(l->density) ? "" : l->pattern);
    cli_table_real(t, 3, l->density);
    cli_table_text(t, l->implement);
    cli_table_real(t, 4, l->ms);
    cli_table_real(t, 4, l->baseline_ms > 0 ? l->baseline_ms : NAN);
    cli_table_real(t, 1, product ? l->gops_real : NAN);
    cli_table_real(t, 1, product ? l->share_of_peak * 100 : NAN);
    cli_table_text(t, cli_words_of(t->c, l->reason));
}

/* With --table the layers of all points are one table, so that programs read one header. */
static void keep_layers(points *p, const char *point, const sp_bench_result *r)
{
    for (int i = 0; i < r->n_layers; i++) {
        if (p->many) cli_table_text(&p->layers, point);
        layer_row(&p->layers, &r->layer[i]);
    }
}

static sparta_status show_layers(cli *c, const sp_bench_result *r)
{
    cli_table t = cli_table_begin(c, (int)SP_COUNT(layer_names) - 1, layer_names + 1);
    for (int i = 0; i < r->n_layers; i++) layer_row(&t, &r->layer[i]);
    SP_TRY(cli_table_end(&t));
    double rest = SP_MAX(0, r->profiled_ms - r->layers_ms);
    cli_say(c, "all layers: %.3f ms of the %.3f ms of a profiled run", r->layers_ms, r->profiled_ms);
    if (rest > r->layers_ms)
        cli_say(c,
                "; the rest is threads that wait: something else uses the cores, or --threads 1 is enough");
    cli_say(c, "\n\n");
    return SPARTA_OK;
}

static const char *const sweep_names[] = {"point",       "median_ms", "p90_ms",   "p99_ms",
                                          "baseline_ms", "ratio",     "ratio_lo", "ratio_hi",
                                          "items_per_s", "threads",   "isa",      "sparse_flop_share"};

static void sweep_row(cli_table *t, const char *point, const sp_bench_result *r)
{
    cli_table_text(t, *point ? point : r->subject.name);
    cli_table_real(t, 3, r->subject.median * 1e3);
    cli_table_real(t, 3, r->subject.p90 * 1e3);
    cli_table_real(t, 3, r->subject.p99 * 1e3);
    bool two = r->baseline.runs > 0;
    cli_table_real(t, 3, two ? r->baseline.median * 1e3 : NAN);
    cli_table_real(t, 3, two ? r->ratio : NAN);
    cli_table_real(t, 3, two ? r->ratio_lo : NAN);
    cli_table_real(t, 3, two ? r->ratio_hi : NAN);
    cli_table_real(t, 1, r->subject.items_per_s);
    cli_table_int(t, r->threads);
    cli_table_text(t, r->isa);
    cli_table_real(t, 3, r->sparse_flop_share);
}

/* ------------------------------------------------------------------ all times */

static void times_json(cli_json *j, const char *key, const sp_bench_subject *s)
{
    cli_json_open(j, key, '[');
    for (int64_t i = 0; i < s->runs; i++) cli_json_real(j, NULL, s->times[i] * 1e3);
    cli_json_close(j, ']');
}

static void keep_times(points *p, const char *point, const sp_bench_result *r)
{
    cli_json *j = &p->times_json;
    cli_json_open(j, NULL, '{');
    cli_json_text(j, "point", point);
    cli_json_int(j, "threads", r->threads);
    times_json(j, "subject_ms", &r->subject);
    times_json(j, "baseline_ms", &r->baseline);
    cli_json_close(j, '}');
}

static sparta_status write_times(cli *c, points *p)
{
    const char *path = cli_text(c, CLI_EXPORT_TIMES, NULL);
    cli_json_close(&p->times_json, ']');
    cli_json_close(&p->times_json, '}');
    sp_text_printf(&p->times, "\n");
    SP_TRY(p->times.status);
    return path ? sp_file_write(c->cx, path, sp_text_str(&p->times), p->times.size) : SPARTA_OK;
}

/* ------------------------------------------------------------------ one point */

static sparta_status fill_request(cli *c, sp_bench_request *r)
{
    *r = (sp_bench_request){.subject = c->operand[0], .against = cli_text(c, CLI_AGAINST, NULL)};
    c->progress.grows = true;
    r->model = cli_text(c, CLI_MODEL, NULL);
    r->concurrency = (int)cli_int(c, CLI_CONCURRENCY, 1);
    r->no_baseline = cli_has(c, CLI_NO_BASELINE);
    r->threads = (int)cli_int(c, CLI_THREADS, 0);
    r->iterations = cli_int(c, CLI_ITERATIONS, 0);
    r->seconds = r->iterations ? 0 : cli_real(c, CLI_TIME, 3);
    r->warmup = cli_int(c, CLI_WARMUP, 3);
    r->seed = (uint64_t)cli_int(c, CLI_SEED, 0);
    r->profile = cli_has(c, CLI_PROFILE);
    SP_TRY(cli_dims(c, &r->sizes));
    return cli_compile_request(c, &r->compile);
}

/* The slowest first; of equally slow ones, the one that runs first. */
static int slower(const void *a, const void *b)
{
    const sp_bench_layer *x = *(const sp_bench_layer *const *)a, *y = *(const sp_bench_layer *const *)b;
    if (x->ms != y->ms) return x->ms < y->ms ? 1 : -1;
    return x < y ? -1 : 1;
}

static sparta_status sort_layers(cli *c, sp_bench_result *r)
{
    const size_t n = (size_t)r->n_layers;
    const sp_bench_layer **by_time = sp_arena_array(c->arena, n + 1, sizeof *by_time);
    sp_bench_layer *sorted = sp_arena_array(c->arena, n + 1, sizeof *sorted);
    if (!by_time || !sorted) return sp_ctx_status(c->cx);
    for (size_t i = 0; i < n; i++) by_time[i] = &r->layer[i];
    qsort(by_time, n, sizeof *by_time, slower);
    for (size_t i = 0; i < n; i++) sorted[i] = *by_time[i];
    r->layer = sorted;
    return SPARTA_OK;
}

static bool for_people(const cli *c)
{
    return !cli_has(c, CLI_TABLE) && !cli_has(c, CLI_QUIET);
}

/* A sweep without --profile is one table, at the end. */
static sparta_status show_point(cli *c, points *p, const char *point, const sp_bench_result *r)
{
    bool profile = cli_has(c, CLI_PROFILE);
    if (!p->layers.columns)
        p->layers = cli_table_begin(c, (int)SP_COUNT(layer_names) - !p->many, layer_names + !p->many);
    keep_layers(p, point, r);
    if (!for_people(c) || (p->many && !profile)) return SPARTA_OK;
    if (profile && r->n_layers) SP_TRY(show_layers(c, r)); /* none: interrupted before */
    SP_TRY(summary(c, r));                                 /* last, where a terminal still shows it */
    if (p->many) cli_say(c, "\n");
    return SPARTA_OK;
}

static sparta_status measure(cli *c, sp_bench_result *out)
{
    sp_bench_request r;
    cli_inputs in = {0};
    SP_TRY(fill_request(c, &r));
    if (cli_has(c, CLI_INPUT) || cli_has(c, CLI_INPUTS)) SP_TRY(cli_inputs_of(c, r.subject, &in));
    r.inputs = in.tensor;
    r.n_inputs = in.n;
    const sparta_status status = sp_bench(c->cx, c->arena, &r, out);
    cli_inputs_free(&in);
    cli_progress_end(c);
    return status;
}

static sparta_status tell_point(cli *c, points *p, const char *point, sp_bench_result *result)
{
    if (result->noisy) cli_note_noise(c);
    if (!strcmp(cli_text(c, CLI_SORT, "order"), "time")) SP_TRY(sort_layers(c, result));
    p->many = *point != 0;
    p->told++;
    keep_times(p, point, result);
    if (cli_wants_json(c)) {
        if (p->many && p->n++ == 0) cli_json_open(&p->json, "runs", '[');
        if (p->many) cli_json_open(&p->json, NULL, '{');
        result_json(&p->json, point, result);
        if (p->many) cli_json_close(&p->json, '}');
        return SPARTA_OK;
    }
    sweep_row(&p->table, point, result);
    return show_point(c, p, point, result);
}

/* Who interrupts is told what was measured until then. */
static sparta_status one_point(cli *c, const char *point, void *arg)
{
    sp_bench_result result = {.complete = false};
    const sparta_status status = measure(c, &result);
    const bool cut = status == SPARTA_E_CANCELLED && result.subject.runs;
    if (!status || cut) SP_TRY(tell_point(c, arg, point, &result));
    return status;
}

/* --table and --quiet print one table: the layers with --profile, else one line a point. Layers are timed last: who interrupts has none. */
static sparta_status tell_points(cli *c, points *p)
{
    if (cli_wants_json(c)) {
        if (p->many) cli_json_close(&p->json, ']');
        cli_json_end(c, &p->json);
        return SPARTA_OK;
    }
    if (!for_people(c))
        SP_TRY(cli_table_end(cli_has(c, CLI_PROFILE) && (p->layers.cells || !c->stands) ? &p->layers
                                                                                        : &p->table));
    else if (p->many)
        SP_TRY(cli_table_end(&p->table));
    if (c->stands && p->many) cli_say(c, "interrupted: not every point is here\n");
    return SPARTA_OK;
}

static sparta_status all_points(cli *c, points *p)
{
    int n;
    p->times_json = (cli_json){.t = &p->times};
    cli_json_open(&p->times_json, NULL, '{');
    cli_json_text(&p->times_json, "schema", "sparta.times/1");
    cli_json_open(&p->times_json, "points", '[');
    if (cli_wants_json(c)) p->json = cli_json_begin(c, "bench");
    p->table = cli_table_begin(c, (int)SP_COUNT(sweep_names), sweep_names);
    const sparta_status status = cli_sweep(c, one_point, p, &n);
    c->stands = status == SPARTA_E_CANCELLED && p->told;
    if (status && !c->stands) return status;
    SP_TRY(tell_points(c, p));
    c->stands = true; /* also when the file cannot be written */
    sp_ctx_resume(c->cx);
    SP_TRY(write_times(c, p));
    return status;
}

sparta_status cli_verb_bench(cli *c)
{
    points p = {0};
    if (cli_has(c, CLI_AGAINST) && cli_has(c, CLI_NO_BASELINE))
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "bench: --against and --no-baseline exclude each other; leave one out");
    if (cli_has(c, CLI_TIME) && cli_has(c, CLI_ITERATIONS))
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "bench: --time and --iterations exclude each other; leave one out");
    if (cli_has(c, CLI_SORT) && !cli_has(c, CLI_PROFILE))
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "bench: --sort is for the layers of --profile; give that too, or leave it out");
    if (cli_has(c, CLI_EXPORT_TIMES)) SP_TRY(cli_writable(c, cli_text(c, CLI_EXPORT_TIMES, NULL)));
    sp_text_init(&p.times, c->cx);
    sparta_status status = all_points(c, &p);
    sp_text_free(&p.times);
    return status;
}
