/* sparta prune: a trained model in, the same with less of its weights out, and what each layer lost. To a pattern, or to a time: then room measure
 * says which weight takes which pattern, and what was exchanged for it. */
#include "cli.h"
#include "prune/prune.h"
#include "verbs.h"
#include <math.h>
#include <string.h>

static bool to_a_time(const cli *c)
{
    return cli_has(c, CLI_TARGET_LATENCY) || cli_has(c, CLI_TARGET_SPEEDUP);
}

/* Flags that mean nothing here are not passed over in silence. */
static sparta_status check_flags(cli *c)
{
    static const cli_option_id how[] = {CLI_DIM, CLI_TIME, CLI_DB, CLI_TARGET};
    for (size_t i = 0; i < SP_COUNT(how) && !to_a_time(c); i++)
        if (cli_has(c, how[i]))
            return sp_fail(c->cx, SPARTA_E_USAGE,
                           "prune: --%s says how a target time is measured; leave it out or give "
                           "--target-latency or --target-speedup",
                           cli_options[how[i]].name);
    return SPARTA_OK;
}

static sparta_status request(cli *c, sp_prune_request *out)
{
    static const char *const methods[] = {"magnitude", "wanda", "sparsegpt"};
    const cli_values *keep = &c->option[CLI_KEEP];
    const char *method = cli_text(c, CLI_METHOD, "magnitude"), *pattern = cli_text(c, CLI_PATTERN, NULL);
    sp_prune_request r = {.data = cli_text(c, CLI_DATA, NULL),
                          .n_keep = keep->n,
                          .keep = keep->value,
                          .threads = (int)cli_int(c, CLI_THREADS, 0),
                          .progress = cli_progress_show,
                          .user = c};
    if (!pattern && !to_a_time(c))
        return sp_fail(
            c->cx, SPARTA_E_USAGE,
            "prune: which pattern? say e.g. --pattern 4x1:0.9, --pattern 2:4 or --target-speedup 2");
    if (!to_a_time(c)) SP_TRY(sp_prune_parse(c->cx, pattern, &r.spec));
    for (int i = 0; i < (int)SP_COUNT(methods); i++)
        if (!strcmp(method, methods[i])) r.method = (sp_prune_method)i;
    *out = r;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ to a time */
/* "5ms", "800us", "1.5s" in milliseconds. */
static sparta_status milliseconds(cli *c, const char *text, double *out)
{
    static const struct {
        const char *unit;
        double ms;
    } units[] = {{"us", 1e-3}, {"ms", 1}, {"s", 1e3}};
    const size_t length = strlen(text);
    for (size_t i = 0; i < SP_COUNT(units); i++) {
        const size_t unit = strlen(units[i].unit);
        const char *number = length > unit ? sp_arena_bytes(c->arena, text, length - unit) : NULL;
        if (!number || strcmp(text + length - unit, units[i].unit) || !sp_parse_double(number, out)) continue;
        *out *= units[i].ms;
        if (*out > 0 && isfinite(*out)) return SPARTA_OK;
    }
    return sp_fail(c->cx, SPARTA_E_USAGE,
                   "prune: --target-latency %.60s: expected a time with its unit, 800us, 5ms or 1s", text);
}

static sparta_status run_fit(cli *c, const sp_prune_request *prune, const sp_compile_request *compile,
                             sp_fit *out)
{
    const char *patterns = cli_text(c, CLI_PATTERN, NULL), *latency = cli_text(c, CLI_TARGET_LATENCY, NULL);
    sp_fit_request r = {.model = c->operand[0],
                        .speedup = cli_real(c, CLI_TARGET_SPEEDUP, 0),
                        .prune = *prune,
                        .seconds = cli_real(c, CLI_TIME, 2),
                        .seed = (uint64_t)cli_int(c, CLI_SEED, 0),
                        .compile = *compile};
    if (latency && cli_has(c, CLI_TARGET_SPEEDUP))
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "prune: --target-latency and --target-speedup: which of them? leave one out");
    if (latency) SP_TRY(milliseconds(c, latency, &r.ms));
    if (patterns) SP_TRY(cli_patterns(c, CLI_PATTERN, patterns, &r.pattern, &r.n_patterns));
    r.prune.progress = NULL; /* the fit's own */
    SP_TRY(cli_compile_dims(c, &r.compile.options.dims));
    const sparta_status status = sp_fit_run(c->cx, c->arena, &r, out);
    cli_progress_end(c);
    return status;
}

static const sp_fit_row *fit_row(const sp_fit *f, const char *weight)
{
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->row[i].weight, weight)) return &f->row[i];
    return NULL;
}

/* The specs that a fit chose, for the weights of this graph, by their names. */
static sparta_status each_of(cli *c, const sp_fit *f, const sp_graph *g, const sp_prune_spec *const **out)
{
    sp_schedule_match *match;
    int n;
    SP_TRY(sp_prune_weights(g, c->arena, &match, &n));
    const sp_prune_spec **each = sp_arena_array(c->arena, (size_t)n + 1, sizeof *each);
    SP_NEED(c->cx, each);
    for (int i = 0; i < n; i++) {
        const sp_value *v = match[i].value;
        const sp_fit_row *row = fit_row(f, v->origin ? v->origin : v->name);
        each[i] = row ? f->each[row - f->row] : NULL;
    }
    *out = each;
    return SPARTA_OK;
}

/* How long the whole model takes, and was to. */
static void exchange(cli *c, cli_json *j, const sp_fit *f)
{
    cli_json_real(j, "target_ms", f->target_ms);
    cli_json_real(j, "dense_ms", f->dense_ms);
    cli_json_real(j, "expected_ms", f->expected_ms);
    cli_json_real(j, "measured_ms", f->measured_ms);
    cli_json_int(j, "threads", f->threads);
    cli_json_int(j, "rounds", f->rounds);
    cli_say(c,
            "us: products of all tokens on one thread; the model takes %.3g ms dense, was to take %.3g, "
            "takes %.3g (%.2f "
            "times as fast; %.3g by the sum of layers) on %d thread%s\n",
            f->dense_ms, f->target_ms, f->measured_ms, f->dense_ms / f->measured_ms, f->expected_ms,
            f->threads, f->threads == 1 ? "" : "s");
    if (f->noisy) cli_note_noise(c);
}

/* ------------------------------------------------------------------ what came of it */
static void times_of(cli_rows *rows, const sp_fit_row *row)
{
    if (!row) { /* a weight that is left: empty cells */
        for (int i = 0; i < 4; i++) cli_table_text(&rows->table, "");
        return;
    }
    cli_rows_int(rows, "tokens", row->tokens);
    cli_rows_text(rows, "pattern", *row->pattern ? row->pattern : "dense");
    cli_rows_real(rows, "dense_us", 1, row->dense_us);
    cli_rows_real(rows, "us", 1, row->us);
}

/* All matrix-like weights: of those that were left the reason. A fit has an error of each layer without data, too: the share of the norm that went. */
static sparta_status table(cli *c, cli_json *j, const sp_prune_report *r, const sp_fit *fit)
{
    static const char *const names[] = {"weight", "shape", "density", "norm_kept", "error", "left"},
                             *const timed[] = {"weight", "shape",   "tokens",    "pattern", "dense_us",
                                               "us",     "density", "norm_kept", "error",   "left"};
    cli_rows rows = fit ? cli_rows_begin(c, j, "layers", (int)SP_COUNT(timed), timed)
                        : cli_rows_begin(c, j, "layers", (int)SP_COUNT(names), names);
    for (int i = 0; i < r->n; i++) {
        const sp_prune_row *row = &r->row[i];
        const sp_fit_row *timing = fit ? fit_row(fit, row->weight) : NULL;
        cli_rows_next(&rows);
        cli_rows_text(&rows, "name", row->weight);
        cli_json_ints(j, "shape", 2, (const int64_t[]){row->n, row->k});
        cli_table_text(&rows.table, cli_shape(c, row->n, row->k));
        if (fit) times_of(&rows, timing);
        cli_rows_real(&rows, "density", 3, row->density);
        cli_rows_real(&rows, "norm_kept", 3, row->norm_kept);
        cli_rows_real(&rows, "error", 3, isnan(row->error) && timing ? timing->error : row->error);
        cli_rows_text(&rows, "left", timing && timing->why ? timing->why : row->why ? row->why : "");
    }
    for (int i = 0; i < r->n_left; i++) {
        const sp_left *l = &r->left[i];
        cli_rows_next(&rows);
        cli_rows_text(&rows, "name", l->weight);
        cli_json_ints(j, "shape", l->tensor->rank, l->tensor->dim);
        cli_table_text(&rows.table, cli_dims_text(c, l->tensor));
        if (fit) times_of(&rows, NULL);
        cli_rows_real(&rows, "density", 3, NAN);
        cli_rows_real(&rows, "norm_kept", 3, NAN);
        cli_rows_real(&rows, "error", 3, NAN);
        cli_rows_text(&rows, "left", sparta_left_reason(l->why));
    }
    return cli_rows_end(&rows);
}

static sparta_status report(cli *c, cli_json *j, const sp_prune_report *r, const sp_fit *fit, double seconds)
{
    const char *path = cli_text(c, CLI_OUTPUT, NULL);
    const char *pattern = fit ? NULL : cli_text(c, CLI_PATTERN, NULL);
    double elements = 0, left = 0;
    for (int i = 0; i < r->n; i++) {
        elements += (double)r->row[i].n * (double)r->row[i].k;
        left += (double)r->row[i].n * (double)r->row[i].k * r->row[i].density;
    }
    cli_json_text(j, "output", path);
    cli_json_text(j, "pattern", pattern);
    cli_json_text(j, "method", cli_text(c, CLI_METHOD, "magnitude"));
    cli_json_int(j, "items", r->items);
    cli_json_int(j, "pruned", r->n_pruned);
    cli_json_real(j, "sparsity", elements > 0 ? 1 - left / elements : 0);
    cli_json_real(j, "seconds", seconds);
    SP_TRY(table(c, j, r, fit));
    if (fit) exchange(c, j, fit);
    cli_say(c, "%s: %d of %d weights pruned by %s to %s, %.1f %% of those of products gone, in %.2f s\n",
            path, r->n_pruned, r->n + r->n_left, cli_text(c, CLI_METHOD, "magnitude"),
            pattern ? pattern : "these patterns", elements > 0 ? 100 - 100 * left / elements : 0.0, seconds);
    return SPARTA_OK;
}

/* fit NULL: to the pattern that was asked for. */
static sparta_status prune(cli *c, sp_opened *o, sp_prune_request *r, const sp_fit *fit)
{
    sp_prune_report done;
    const double start = sp_now();
    if (fit) SP_TRY(each_of(c, fit, o->model->graph, &r->each));
    SP_TRY(sp_prune_model(o->model->graph, r, &done));
    SP_TRY(sp_model_check(c->cx, o->model));
    SP_TRY(sp_onnx_write(c->cx, o->model->graph, cli_text(c, CLI_OUTPUT, NULL)));
    cli_json j = cli_json_begin(c, "prune");
    SP_TRY(report(c, &j, &done, fit, sp_now() - start));
    cli_json_end(c, &j);
    return SPARTA_OK;
}

sparta_status cli_verb_prune(cli *c)
{
    const char *path = cli_text(c, CLI_OUTPUT, NULL);
    sp_compile_request compile;
    sp_prune_request r;
    sp_opened o;
    sp_fit fit;
    if (!path)
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "prune: nowhere to write the model; say where with -o OUT.onnx");
    SP_TRY(check_flags(c));
    SP_TRY(request(c, &r));
    SP_TRY(cli_compile_request(c, &compile));
    SP_TRY(cli_writable(c, path));
    if (to_a_time(c)) SP_TRY(run_fit(c, &r, &compile, &fit));
    SP_TRY(sp_compile_open(c->cx, c->operand[0], &compile.options, &o));
    const sparta_status status = prune(c, &o, &r, to_a_time(c) ? &fit : NULL);
    sp_compile_close(&o);
    return status;
}
