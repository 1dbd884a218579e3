/* fit: a time in; which layer takes which pattern at which sparsity so that the model runs within it, and least is lost.
 *
 *     weights x patterns --product_time--> us        on one thread, at 128 tokens, times the tokens that the layer has
 *                        --sp_prune_model-> error    of the layer's output on data; without data the share of the norm that goes
 *     the model, dense   --runner---------> ms       of which the products are a part
 *
 *     saving that is needed --exchange.c--> a choice --compiled, run in turns with dense--> ms
 *            ^                                                                              |
 *            +------------- what it really saved, by what the sum of layers said -----------+
 *
 * The sum of layers leaves out what threads, caches and merged layers do, so a choice is measured, and the next one is asked for a saving that is
 * corrected by it. Of the choices that meet the time the one that loses least is the answer. */
#include "measure/product_time.h"
#include "measure/runner.h"
#include "ops/ops.h"
#include "tune/tune.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TOKENS = 128, PANEL = 64, FEW = 16, ROUNDS = 4, PATTERNS = 64 };
static const double usual[] = {.5, .6, .7, .8, .9, .95}; /* sparsities of a pattern that says none */

typedef struct candidate {
    const char *text; /* "4x1:0.9" */
    const char *name; /* "4x1" */
    sp_prune_spec spec;
} candidate;

typedef struct fit {
    sparta_ctx *cx;
    sp_arena *arena;
    const sp_fit_request *r;
    sp_compile_request compile;
    sp_opened opened;
    int n_candidates;
    candidate *candidate;
    int n_matches;
    sp_schedule_match *match;
    int *row;                   /* of each match: those of one name are one */
    sp_exchange_option *option; /* (rows, candidates) */
    sp_exchange_layer *layer;   /* of each row */
    sp_product_timer timer;
    sp_runner dense;
    double scale; /* a microsecond of layers saves so many of the model */
    sp_fit out;
} fit;

static void tell(const fit *f, int done, int all, const char *what)
{
    sp_compile_tell(&f->r->compile.options, done, all, what);
}

/* ------------------------------------------------------------------ candidates */
static sparta_status add(fit *f, const char *text, const char *name)
{
    candidate *c = &f->candidate[f->n_candidates];
    SP_NEED(f->cx, text);
    SP_NEED(f->cx, name);
    if (f->n_candidates == PATTERNS)
        return sp_fail(f->cx, SPARTA_E_USAGE, "fit: more than %d patterns; ask for fewer", PATTERNS);
    *c = (candidate){text, name, {0}};
    SP_TRY(sp_prune_parse(f->cx, text, &c->spec));
    for (int i = 0; i < f->n_candidates; i++)
        if (!strcmp(f->candidate[i].text, text))
            return sp_fail(f->cx, SPARTA_E_USAGE, "fit: pattern %.60s is asked for twice; leave one out",
                           text);
    f->n_candidates++;
    return SPARTA_OK;
}

/* "2:4", "4x1" at the usual sparsities, or "4x1:0.9". */
static sparta_status add_pattern(fit *f, const char *text)
{
    sp_prune_spec spec;
    const char *colon = strrchr(text, ':');
    const bool alone = sp_prune_parse_pattern(f->cx, text, &spec) == SPARTA_OK;
    if (!alone) sp_ctx_clear(f->cx); /* with its sparsity, or wrong: add says so */
    const char *own = sp_arena_string(f->arena, text);
    if (!alone) return add(f, own, colon ? sp_arena_bytes(f->arena, text, (size_t)(colon - text)) : own);
    if (spec.of) return add(f, own, own);
    for (size_t i = 0; i < SP_COUNT(usual); i++)
        SP_TRY(add(f, sp_arena_printf(f->arena, "%s:%g", text, usual[i]), own));
    return SPARTA_OK;
}

static sparta_status add_patterns(fit *f)
{
    static const char *const both[] = {"4x1", "2:4"};
    const bool given = f->r->n_patterns > 0;
    f->candidate = sp_arena_array(f->arena, PATTERNS + 1, sizeof *f->candidate);
    SP_NEED(f->cx, f->candidate);
    for (int i = 0; i < (given ? f->r->n_patterns : (int)SP_COUNT(both)); i++)
        SP_TRY(add_pattern(f, given ? f->r->pattern[i] : both[i]));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ weights */
static const char *name_of(const sp_schedule_match *m)
{
    return sp_initialiser_name(m->value);
}

/* Rows of inputs that the products with this weight have, in one run. */
static sparta_status tokens_of(const fit *f, const sp_schedule_match *m, int64_t n, int64_t *out)
{
    const sp_graph *g = f->opened.model->graph;
    bool turned;
    *out = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        int64_t dim[SPARTA_RANK], elements = 1;
        if (sp_schedule_weight_of(g->node[i], &turned) != m->value) continue;
        SP_TRY(sp_dims_eval(f->cx, &g->node[i]->out[0]->dims, &f->out.sizes, dim));
        for (int d = 0; d < g->node[i]->out[0]->dims.rank; d++) elements *= dim[d];
        *out += elements / SP_MAX(n, 1);
    }
    return SPARTA_OK;
}

/* The row of a match: that of an earlier one with its name, or the next. */
static sparta_status row_of(fit *f, int i)
{
    const sp_schedule_match *m = &f->match[i];
    const int64_t *dim = m->value->constant->dim;
    int at = 0;
    while (at < f->out.n && strcmp(f->out.row[at].weight, name_of(m)) != 0) at++;
    f->row[i] = at;
    if (at < f->out.n) return SPARTA_OK;
    sp_fit_row *row = &f->out.row[f->out.n++];
    *row = (sp_fit_row){.weight = sp_arena_string(f->arena, name_of(m)),
                        .layer = sp_arena_string(f->arena, m->node->name),
                        .n = dim[m->turned],
                        .k = dim[!m->turned],
                        .pattern = ""};
    SP_NEED(f->cx, row->weight);
    SP_NEED(f->cx, row->layer);
    f->layer[at] = (sp_exchange_layer){.n = f->n_candidates, .option = f->option + at * f->n_candidates};
    return SPARTA_OK;
}

static sparta_status list_weights(fit *f)
{
    const sp_graph *g = f->opened.model->graph;
    const sp_bindings none = {0};
    SP_TRY(sp_prune_weights(g, f->arena, &f->match, &f->n_matches));
    SP_TRY(sp_sizes_fill(f->cx, f->arena, g, &none, &f->out.sizes));
    SP_TRY(sp_sizes_some(f->cx, &f->out.sizes));
    const size_t n = (size_t)f->n_matches, all = n * (size_t)f->n_candidates;
    f->row = sp_arena_array(f->arena, n + 1, sizeof *f->row);
    SP_NEED(f->cx, f->row);
    f->out.row = sp_arena_array(f->arena, n + 1, sizeof *f->out.row);
    SP_NEED(f->cx, f->out.row);
    f->layer = sp_arena_array(f->arena, n + 1, sizeof *f->layer);
    SP_NEED(f->cx, f->layer);
    f->option = sp_arena_array(f->arena, all + 1, sizeof *f->option);
    SP_NEED(f->cx, f->option);
    for (int i = 0; i < f->n_matches; i++) {
        int64_t tokens;
        SP_TRY(row_of(f, i));
        SP_TRY(tokens_of(f, &f->match[i], f->out.row[f->row[i]].n, &tokens));
        f->out.row[f->row[i]].tokens += tokens;
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ errors */
/* What is lost of a weight that is several values is the most that one of them loses; where one is left, all are. */
static void note_error(fit *f, int c, int i, const sp_prune_row *row)
{
    const double lost = sqrt(fmax(1 - row->norm_kept * row->norm_kept, 0));
    const double error = row->why ? NAN : isnan(row->error) ? lost : row->error;
    double *mine = &f->option[f->row[i] * f->n_candidates + c].error;
    bool first = true;
    for (int k = 0; k < i; k++) first &= f->row[k] != f->row[i];
    *mine = first || isnan(error) || error > *mine ? error : *mine;
}

/* All weights by one candidate, in a copy. */
static sparta_status errors_of(fit *f, int c)
{
    sp_prune_request request = f->r->prune;
    sp_prune_report report;
    sp_graph *g;
    request.spec = f->candidate[c].spec;
    request.each = NULL;
    request.leave = true;
    SP_TRY(sp_graph_copy(f->opened.model->graph, &g));
    const sparta_status status = sp_prune_model(g, &request, &report);
    for (int i = 0; !status && i < report.n; i++) {
        note_error(f, c, i, &report.row[i]);
        if (report.row[i].why) f->out.row[f->row[i]].why = sp_arena_string(f->arena, report.row[i].why);
    }
    sp_graph_free(g);
    return status;
}

/* The reason that a weight was left stays where no pattern is an option; somewhere one must be. */
static sparta_status check_options(fit *f)
{
    const char *why = "they were left";
    int n = 0;
    for (int i = 0; i < f->out.n; i++) {
        bool any = false;
        for (int c = 0; c < f->n_candidates; c++) any |= !isnan(f->layer[i].option[c].error);
        if (any) f->out.row[i].why = NULL;
        if (f->out.row[i].why) why = f->out.row[i].why;
        n += any;
    }
    return n ? SPARTA_OK
             : sp_fail(f->cx, SPARTA_E_USAGE,
                       "fit: none of the %d weights can take any of these patterns (%s); give others",
                       f->out.n, why);
}

static sparta_status find_errors(fit *f)
{
    for (int c = 0; c < f->n_candidates && !f->r->error; c++) {
        SP_TRY(sp_check_cancel(f->cx));
        tell(f, c, f->n_candidates, f->candidate[c].text);
        SP_TRY(errors_of(f, c));
    }
    for (int i = 0; i < f->out.n && f->r->error; i++)
        for (int c = 0; c < f->n_candidates; c++) {
            const bool fits = !sp_prune_too_large(&f->candidate[c].spec, f->out.row[i].n, f->out.row[i].k);
            f->option[i * f->n_candidates + c].error =
                fits ? f->r->error(f->r->user, f->out.row[i].weight, f->candidate[c].text) : NAN;
        }
    return check_options(f);
}

/* ------------------------------------------------------------------ times */
/* Of all tokens that the layer has: they are computed in panels, unless they are few. */
static sparta_status time_of(fit *f, int i, const candidate *c, double *us, double *dense_us)
{
    const sp_fit_row *row = &f->out.row[i];
    const bool few = row->tokens <= FEW;
    const int64_t panels = (row->tokens + PANEL - 1) / PANEL, at = SP_MIN(panels * PANEL, TOKENS);
    sp_product_time t = {.n = row->n, .k = row->k, .tokens = few ? SP_MAX(row->tokens, 1) : at};
    t.pattern = c->name;
    t.sparsity = c->spec.of ? 1 - (double)c->spec.keep / c->spec.of : c->spec.sparsity;
    const double times = few ? 1 : (double)(panels * PANEL) / (double)at;
    const sparta_status status = sp_product_time_find(f->cx, &f->timer, &t);
    if (status == SPARTA_E_UNSUPPORTED) {
        sp_ctx_clear(f->cx); /* it is an answer */
        *us = NAN;
        return SPARTA_OK;
    }
    SP_TRY(status);
    *us = t.us * times;
    /* Each pattern is timed beside dense: the best of these. */
    if (!(*dense_us > 0) || t.dense_us * times < *dense_us) *dense_us = t.dense_us * times;
    return SPARTA_OK;
}

/* Weights of one shape share their times. */
static const sp_fit_row *alike(const fit *f, int i)
{
    const sp_fit_row *row = &f->out.row[i];
    for (const sp_fit_row *o = f->out.row; o < row; o++)
        if (o->n == row->n && o->k == row->k && o->tokens == row->tokens) return o;
    return NULL;
}

static sparta_status measure_times(fit *f)
{
    SP_TRY(sp_product_timer_open(f->cx, f->compile.options.db, f->compile.options.target, &f->timer));
    for (int i = 0; i < f->out.n; i++) {
        const sp_fit_row *same = alike(f, i);
        sp_exchange_option *mine = f->option + i * f->n_candidates;
        tell(f, i, f->out.n, f->out.row[i].weight);
        for (int c = 0; c < f->n_candidates; c++) {
            SP_TRY(sp_check_cancel(f->cx));
            if (same)
                mine[c].us = f->option[(same - f->out.row) * f->n_candidates + c].us;
            else if (sp_prune_too_large(&f->candidate[c].spec, f->out.row[i].n, f->out.row[i].k))
                mine[c].us = NAN;
            else
                SP_TRY(time_of(f, i, &f->candidate[c], &mine[c].us, &f->layer[i].dense_us));
        }
        if (same) f->layer[i].dense_us = f->layer[same - f->out.row].dense_us;
    }
    return SPARTA_OK;
}

static sparta_status find_times(fit *f)
{
    if (!f->r->time) return measure_times(f);
    for (int i = 0; i < f->out.n; i++) {
        const char *weight = f->out.row[i].weight;
        f->layer[i].dense_us = f->r->time(f->r->user, weight, NULL);
        if (!(f->layer[i].dense_us > 0))
            return sp_fail(f->cx, SPARTA_E_USAGE, "fit: no time was given for '%.200s', dense", weight);
        for (int c = 0; c < f->n_candidates; c++)
            f->option[i * f->n_candidates + c].us = f->r->time(f->r->user, weight, f->candidate[c].text);
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the whole model */
/* The graph is the package's from here on, or gone. */
static sparta_status start(fit *f, sp_graph *g, bool dense_only, sp_runner *out)
{
    sp_compile_request request = f->compile;
    const sp_runner_start how = {
        .threads = request.options.threads, .seed = f->r->seed, .sizes = &f->out.sizes};
    sparta_package *p;
    request.options.dense_only = dense_only;
    const sparta_status status = sp_compile_graph(f->cx, g, &request, &p);
    if (status) {
        sp_graph_free(g);
        return status;
    }
    *out = (sp_runner){.cx = f->cx, .package = p, .owns = true};
    return sp_runner_start_session(out, &how);
}

static sparta_status start_dense(fit *f)
{
    const sp_alternation how = {1, 0, f->r->seconds, &f->compile.options};
    sp_samples times = {0}, none = {0};
    sp_summary found;
    sp_graph *g;
    SP_TRY(sp_graph_copy(f->opened.model->graph, &g));
    SP_TRY(start(f, g, true, &f->dense));
    f->out.threads = sparta_session_threads(f->dense.session);
    SP_TRY(sp_runner_alternate(f->arena, &f->dense, NULL, &how, &times, &none));
    SP_TRY(sp_summarise(f->cx, times.x, times.n, &found));
    f->out.dense_ms = (found.noisy ? found.best : found.median) * 1e3;
    return SPARTA_OK;
}

/* What a row is to be; NULL: dense. */
static const candidate *candidate_of(const fit *f, int row)
{
    const int c = f->layer[row].chosen;
    return c < 0 ? NULL : &f->candidate[c];
}

/* The choice, compiled and run in turns with the dense model. */
static sparta_status try_choice(fit *f, sp_comparison *out)
{
    const sp_alternation how = {1, 0, f->r->seconds, &f->compile.options};
    const sp_prune_spec **each = sp_arena_array(f->arena, (size_t)f->n_matches + 1, sizeof *each);
    const sp_prune_request request = {.each = each, .method = SP_PRUNE_MAGNITUDE};
    sp_prune_report report;
    sp_samples a = {0}, b = {0};
    sp_runner pruned = {0};
    sp_graph *g;
    SP_NEED(f->cx, each);
    for (int i = 0; i < f->n_matches; i++) {
        const candidate *c = candidate_of(f, f->row[i]);
        each[i] = c ? &c->spec : NULL;
    }
    SP_TRY(sp_graph_copy(f->opened.model->graph, &g));
    sparta_status status = sp_prune_model(g, &request, &report);
    if (status) {
        sp_graph_free(g);
        return status;
    }
    status = start(f, g, false, &pruned);
    if (!status) status = sp_runner_alternate(f->arena, &pruned, &f->dense, &how, &a, &b);
    if (!status) status = sp_compare(f->cx, a.x, b.x, a.n, f->r->seed + 1, out);
    sp_runner_close(&pruned);
    return status;
}

/* ------------------------------------------------------------------ rounds */
typedef struct kept { /* the best choice so far */
    bool met;
    double lost, ms, dense_ms, expected;
    int *chosen;
} kept;

/* Error of weights that could not be pruned is NAN, and so is their choice: none. */
static double lost_of(const fit *f)
{
    double lost = 0;
    for (int i = 0; i < f->out.n; i++)
        if (f->layer[i].chosen >= 0) lost += pow(f->layer[i].option[f->layer[i].chosen].error, 2);
    return lost;
}

static double dense_us(const fit *f)
{
    double sum = 0;
    for (int i = 0; i < f->out.n; i++) sum += f->layer[i].dense_us;
    return sum;
}

/* Of the whole model, when its layers take so many microseconds. */
static double expected_ms(const fit *f, double us)
{
    return f->out.dense_ms - (dense_us(f) - us) * f->scale * 1e-3;
}

/* Ask for what brings the model to the target; *any: something is pruned. */
static sparta_status choose(fit *f, double *us, bool *any)
{
    const double saving = (f->out.dense_ms - f->out.target_ms) * 1e3 / f->scale;
    const double budget = (dense_us(f) - saving) * (1 + 1e-9); /* a time that is met exactly is met */
    SP_TRY(sp_exchange(f->cx, f->layer, f->out.n, budget, us));
    *any = false;
    for (int i = 0; i < f->out.n; i++) *any |= candidate_of(f, i) != NULL;
    return SPARTA_OK;
}

static bool same_choice(const fit *f, const int *before)
{
    for (int i = 0; i < f->out.n; i++)
        if (before[i] != f->layer[i].chosen) return false;
    return true;
}

static void take(const fit *f, kept *best, const kept *now)
{
    const bool better =
        now->met == best->met ? (now->met ? now->lost < best->lost : now->ms < best->ms) : now->met;
    if (!better) return;
    int *chosen = best->chosen;
    *best = *now;
    best->chosen = chosen;
    for (int i = 0; i < f->out.n; i++) chosen[i] = f->layer[i].chosen;
}

static double target_of(const fit *f, double dense_ms)
{
    return f->r->ms > 0 ? f->r->ms : dense_ms / f->r->speedup;
}

static sparta_status rounds(fit *f, kept *best)
{
    int *before = sp_arena_array(f->arena, (size_t)f->out.n + 1, sizeof *before);
    SP_NEED(f->cx, before);
    for (int i = 0; i < f->out.n; i++) before[i] = -1;
    for (f->out.rounds = 0; f->out.rounds < ROUNDS;) {
        sp_comparison c;
        double us;
        bool any;
        SP_TRY(choose(f, &us, &any));
        if (!any || same_choice(f, before)) break;
        for (int i = 0; i < f->out.n; i++) before[i] = f->layer[i].chosen;
        tell(f, f->out.rounds++, ROUNDS, "compiling and timing a choice");
        SP_TRY(try_choice(f, &c));
        /* Where other programs take the machine for a while, medians say more of them than of the model. */
        kept now = {.lost = lost_of(f),
                    .ms = (c.noisy ? c.a.best : c.a.median) * 1e3,
                    .dense_ms = (c.noisy ? c.b.best : c.b.median) * 1e3};
        now.expected = expected_ms(f, us);
        now.met = now.ms <= target_of(f, now.dense_ms) * (1 + SP_FIT_TOLERANCE);
        f->out.noisy |= c.noisy;
        take(f, best, &now);
        /* What it really saved, by what the layers said; wild ones are noise. */
        const double said = (dense_us(f) - us) * 1e-3, saved = now.dense_ms - now.ms;
        f->scale = fmax(saved / said, f->scale / 3);
        f->out.dense_ms = now.dense_ms;
        f->out.target_ms = target_of(f, now.dense_ms);
    }
    return SPARTA_OK;
}

static sparta_status unreachable(const fit *f, double best_ms, const char *how)
{
    char asked[64];
    if (f->r->ms > 0)
        snprintf(asked, sizeof asked, "%.4g ms", f->r->ms);
    else
        snprintf(asked, sizeof asked, "a speed-up of %.4g", f->r->speedup);
    return sp_fail(
        f->cx, SPARTA_E_RANGE,
        "fit: %s cannot be reached with these patterns: the model takes %.4g ms dense, and %.4g ms "
        "(%.2f times as fast) is the least %s; ask for that, or give more patterns",
        asked, f->out.dense_ms, best_ms, f->out.dense_ms / best_ms, how);
}

static sparta_status by_table(fit *f)
{
    double us;
    bool any;
    f->out.dense_ms = dense_us(f) * 1e-3;
    f->out.threads = 1;
    f->out.target_ms = target_of(f, f->out.dense_ms);
    f->scale = 1;
    SP_TRY(choose(f, &us, &any));
    f->out.expected_ms = expected_ms(f, us);
    f->out.measured_ms = NAN;
    return f->out.expected_ms <= f->out.target_ms * (1 + 1e-6)
               ? SPARTA_OK
               : unreachable(f, f->out.expected_ms, "by the times that were given");
}

static sparta_status by_measuring(fit *f)
{
    kept best = {.ms = INFINITY, .chosen = sp_arena_array(f->arena, (size_t)f->out.n + 1, sizeof(int))};
    SP_NEED(f->cx, best.chosen);
    SP_TRY(start_dense(f));
    f->out.target_ms = target_of(f, f->out.dense_ms);
    f->scale = 1.0 / f->out.threads;
    SP_TRY(rounds(f, &best));
    if (!f->out.rounds) { /* dense does it */
        f->out.expected_ms = f->out.measured_ms = f->out.dense_ms;
        return f->out.dense_ms <= f->out.target_ms * (1 + SP_FIT_TOLERANCE)
                   ? SPARTA_OK
                   : unreachable(f, f->out.dense_ms, "there is: no pattern is faster than dense");
    }
    f->out.dense_ms = best.dense_ms;
    f->out.target_ms = target_of(f, best.dense_ms);
    f->out.expected_ms = best.expected;
    f->out.measured_ms = best.ms;
    for (int i = 0; i < f->out.n; i++) f->layer[i].chosen = best.chosen[i];
    return best.met ? SPARTA_OK : unreachable(f, best.ms, "that was measured");
}

/* ------------------------------------------------------------------ the public part */
static sparta_status fill(fit *f)
{
    const sp_prune_spec **each = sp_arena_array(f->arena, (size_t)f->out.n + 1, sizeof *each);
    SP_NEED(f->cx, each);
    for (int i = 0; i < f->out.n; i++) {
        const sp_exchange_layer *l = &f->layer[i];
        sp_fit_row *row = &f->out.row[i];
        const candidate *c = candidate_of(f, i);
        each[i] = c ? &c->spec : NULL;
        row->dense_us = l->dense_us;
        row->us = c ? l->option[l->chosen].us : l->dense_us;
        row->error = c ? l->option[l->chosen].error : 0;
        row->pattern = c ? c->text : "";
    }
    f->out.each = each;
    return SPARTA_OK;
}

static sparta_status work(fit *f)
{
    SP_TRY(add_patterns(f));
    SP_TRY(sp_compile_open(f->cx, f->r->model, &f->compile.options, &f->opened));
    f->compile.options.dims = NULL; /* done */
    SP_TRY(list_weights(f));
    SP_TRY(find_errors(f));
    SP_TRY(find_times(f));
    SP_TRY(f->r->time ? by_table(f) : by_measuring(f));
    return fill(f);
}

static bool positive(double x)
{
    return x > 0 && isfinite(x);
}

sparta_status sp_fit_run(sparta_ctx *cx, sp_arena *arena, const sp_fit_request *r, sp_fit *out)
{
    fit f = {.cx = cx, .arena = arena, .r = r, .compile = r->compile};
    if (positive(r->ms) == positive(r->speedup) || r->ms < 0 || r->speedup < 0 || isnan(r->ms) ||
        isnan(r->speedup))
        return sp_fail(cx, SPARTA_E_USAGE, "fit: a time or a speed-up above 0 is needed, and one of them");
    f.compile.options.masks = f.compile.options.schedule = NULL;
    f.compile.options.rules = NULL;
    f.compile.obeyed = NULL;
    f.compile.no_verify = true; /* every layer's choice is checked as it is made */
    const sparta_status status = work(&f);
    sp_runner_close(&f.dense);
    if (f.timer.db) sp_tune_close(f.timer.db);
    sp_compile_close(&f.opened);
    if (status == SPARTA_OK) {
        sp_sizes_note(cx, &(sp_bindings){0}, &f.out.sizes); /* those that are given are the model's by then */
        *out = f.out;
    }
    return status;
}
