/* kernel bench: one product by itself, on activations that already lie as its implements take them: in panels, or in rows.
 *
 * The weight is random and pruned as asked, or given; every Linear row of implements.def that takes it is built as
 * compile builds it, checked against the reference on a few tokens, and timed: one window of each in turn, all windows about as
 * long, so that all see the same machine and an interruption hits each as likely. The answer is the fastest sparse row (the fastest of all
 * when none takes the weight; the one that stores the format when one is asked for) beside the fastest dense one. Their ratio is that of the
 * medians of windows, with its interval. Shares are best over best: the fastest span of the kernel over the
 * fastest window of the peak, which is measured before and after. Few tokens (16 at most) leave nothing to do but to read the weight:
 * then the share of the bandwidth is told, too, on the bytes that are stored. A weight of many megabytes is then timed in pieces as long as those
 * that the bandwidth is measured with, one after the other, and the best of each piece is added up: one window of 20 ms never has the machine
 * for itself. */
#include "measure/kernel_weight.h"
#include "call/call.h"
#include "implement/implement.h"
#include "ops/ops.h"
#include "schedule/schedule.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 16, WINDOWS = 100000, CHECKED = 3, PIECES = 128, PIECE = 4 << 20 };

typedef struct candidate {
    const sp_implement *im;
    char parameters[96];
    sp_packed packed;
    bool has_packed;
    int64_t bytes;           /* of it */
    const sp_object *object; /* NULL: portable */
    sp_call call;
    float *work;      /* scratch of all threads, one after the other; NULL: it needs none */
    size_t each;      /* floats of a thread */
    char format[256]; /* canonical */
    int64_t repeats;  /* calls in a span */
    int64_t spans;    /* spans in a window */
    int pieces;       /* a call is timed in so many */
    double best;
    double piece[PIECES]; /* the best of each */
    double *times;
    int64_t n;
} candidate;

typedef struct bench {
    sparta_ctx *cx;
    sp_arena *arena;
    const sp_kernel_request *r;
    sp_target target;
    sp_graph *g;
    sp_node *node;
    sparta_tensor w; /* (n, k) */
    sp_mask mask;
    sp_task task;
    sp_pool *pool;
    float *x, *y;              /* panels */
    float *x_rows, *y_rows;    /* the same in rows, when the tokens are few */
    const sp_implement *asked; /* that stores the request's format; NULL: none is asked for */
    sp_format format;          /* asked for */
    int n;
    candidate row[ROWS];
    double peak, bandwidth;
} bench;

/* ------------------------------------------------------------------ the product */

/* y[tokens, n] = Linear(x[tokens, k], w): what the rows of implements.def look at. */
static sparta_status make_node(bench *b)
{
    sp_value *in[2] = {NULL, NULL}, *out = NULL;
    sp_dims dims = {.rank = 2};
    SP_TRY(sp_graph_create(b->cx, "kernel", &b->g));
    dims.dim[0] = sp_expr_const(b->g->arena, b->r->m);
    dims.dim[1] = sp_expr_const(b->g->arena, b->r->k);
    if (!dims.dim[0] || !dims.dim[1]) return sp_ctx_status(b->cx);
    SP_TRY(sp_graph_add_input(b->g, "x", SPARTA_F32, &dims, &in[0]));
    SP_TRY(sp_graph_add_constant(b->g, "w", &b->w, false, &in[1]));
    sp_attr attr[] = {{.name = "transposed", .kind = SP_ATTR_INT, .i = 1},
                      {.name = "activation", .kind = SP_ATTR_STRING, .s = ""}};
    SP_TRY(sp_graph_add_node(b->g, SP_OP_Linear, "product", 2, in, 1, &out, &(sp_attrs){2, attr}, &b->node));
    SP_TRY(sp_ops_infer_node(b->g, b->node));
    b->task = (sp_task){.node = b->node, .n = b->r->n, .k = b->r->k, .strict = sp_ctx_strict(b->cx)};
    b->task.library = sp_implement_library(b->target);
    SP_TRY(sp_mask_of(b->cx, &b->w, &b->mask));
    b->task.mask = &b->mask;
    b->task.tokens = b->r->m;
    if (sp_implement_few(&b->task)) SP_TRY(sp_mask_fill(b->cx, &b->mask, 16, 1, &b->task.strip16_fill));
    SP_TRY(sp_mask_detect(b->cx, &b->mask, 1.02, &b->task.pattern));
    return sp_mask_fill(b->cx, &b->mask, 4, 1, &b->task.strip_fill);
}

static float *panels(bench *b, int64_t features)
{
    size_t n;
    if (!sp_size_mul((size_t)sp_panels(b->r->m), (size_t)(sp_panel_rows(features) * SP_PANEL), &n))
        n = SIZE_MAX;
    return sp_arena_array(b->arena, n, sizeof(float));
}

static double lane(const float *panel, int64_t features, int64_t token, int64_t f)
{
    return panel[token / SP_PANEL * sp_panel_rows(features) * SP_PANEL + f * SP_PANEL + token % SP_PANEL];
}

static sparta_status make_rows(bench *b)
{
    if (!sp_implement_few(&b->task)) return SPARTA_OK;
    b->x_rows = sp_arena_array(b->arena, (size_t)(b->r->m * b->r->k), sizeof(float));
    SP_NEED(b->cx, b->x_rows);
    b->y_rows = sp_arena_array(b->arena, (size_t)(b->r->m * b->r->n), sizeof(float));
    SP_NEED(b->cx, b->y_rows);
    for (int64_t t = 0; t < b->r->m; t++)
        for (int64_t k = 0; k < b->r->k; k++) b->x_rows[t * b->r->k + k] = (float)lane(b->x, b->r->k, t, k);
    return SPARTA_OK;
}

static sparta_status make_activations(bench *b)
{
    b->x = panels(b, b->r->k);
    SP_NEED(b->cx, b->x);
    b->y = panels(b, b->r->n);
    SP_NEED(b->cx, b->y);
    sp_rng rng = sp_rng_seed(b->r->seed + 1);
    int64_t n = sp_panels(b->r->m) * sp_panel_rows(b->r->k) * SP_PANEL;
    for (int64_t i = 0; i < n; i++) b->x[i] = (float)(int32_t)(sp_rng_next(&rng) >> 40) * 0x1p-23f - 1;
    return make_rows(b);
}

/* ------------------------------------------------------------------ candidates */

static sp_operand operand(const bench *b, float *rows, float *p, int64_t features)
{
    int64_t dim[2] = {b->r->m, features};
    if (rows)
        return (sp_operand){.kind = SP_OPERAND_ROWS, .tensor = sparta_tensor_view(SPARTA_F32, 2, dim, rows)};
    return (sp_operand){.kind = SP_OPERAND_PANELS,
                        .tensor = sparta_tensor_view(SPARTA_F32, 2, dim, NULL),
                        .panel = p,
                        .gap = sp_panel_rows(features) * SP_PANEL};
}

static sparta_status bind(bench *b, candidate *c)
{
    sp_job *j = &c->call.job;
    SP_TRY(sp_call_bind(b->cx, b->node, c->im->kernel, c->object, &c->call));
    j->in[0] = operand(b, !sp_implement_panels(c->im) ? b->x_rows : NULL, b->x, b->r->k);
    j->in[1] = (sp_operand){.kind = SP_OPERAND_PACKED, .tensor = b->w, .packed = &c->packed};
    j->out[0] = operand(b, !sp_implement_panels(c->im) ? b->y_rows : NULL, b->y, b->r->n);
    j->tokens = b->r->m;
    j->panels = sp_panels(b->r->m);
    SP_TRY(c->call.kernel->prepare(b->cx, b->arena, j));
    SP_TRY(c->call.kernel->check(b->cx, j));
    if (!c->call.kernel->work) return SPARTA_OK;
    c->each = (c->call.kernel->work(j) / sizeof(float) + 15) / 16 * 16;
    c->work = sp_arena_array(b->arena, c->each * (size_t)sp_pool_threads(b->pool), sizeof(float));
    SP_NEED(b->cx, c->work);
    return SPARTA_OK;
}

static sparta_status compile_text(bench *b, candidate *c, sp_text *t)
{
    sp_jit_rung rung;
    c->im->parameters(&b->task, t);
    snprintf(c->parameters, sizeof c->parameters, "%s", sp_text_str(t));
    SP_TRY(t->status);
    sp_text_free(t);
    if (b->target == SP_TARGET_PORTABLE) return SPARTA_OK;
    SP_TRY(sp_implement_text(c->im->kernel, c->parameters, b->target, t));
    sparta_status status = sp_jit_get(b->cx, b->target, sp_text_str(t), &c->object, &rung);
    if (status != SPARTA_E_COMPILER) return status;
    sp_note(b->cx, "%s", sparta_message(b->cx)); /* the portable kernel runs */
    return SPARTA_OK;
}

static sparta_status build(bench *b, candidate *c)
{
    sp_format format;
    sp_format_stats stats;
    sp_text t;
    sp_text_init(&t, b->cx);
    sparta_status status = compile_text(b, c, &t);
    sp_text_free(&t);
    if (!status) {
        c->im->format(&b->task, &t);
        status = t.status ? t.status : sp_format_parse(b->cx, sp_text_str(&t), &format);
        snprintf(c->format, sizeof c->format, "%s", sp_text_str(&t));
    }
    sp_text_free(&t);
    SP_TRY(status);
    SP_TRY(sp_format_pack(b->cx, &format, &b->w, c->im->sparse ? &b->mask : NULL, &c->packed));
    c->has_packed = true;
    SP_TRY(sp_packed_measure(b->cx, &c->packed, &stats));
    c->bytes = (int64_t)stats.bytes;
    return bind(b, c);
}

/* ------------------------------------------------------------------ running, as a session runs a group of
 * one step */

typedef struct team {
    const sp_call *call;
    float *work;
    size_t each;
    int threads;
    int64_t whole;
    int piece, pieces;
} team;

static void work(void *arg, int thread)
{
    const team *t = arg;
    float *mine = t->work ? t->work + t->each * (size_t)thread : NULL;
    for (int64_t p = t->whole * thread / t->threads; p < t->whole * (thread + 1) / t->threads; p++)
        sp_call_panel(t->call, &(sp_place){.panel = p, .slot = thread, .part = 0, .parts = 1, .work = mine});
    for (int64_t p = t->whole; p < t->call->job.panels; p++)
        sp_call_panel(t->call, &(sp_place){.panel = p,
                                           .slot = thread,
                                           .part = t->piece * t->threads + thread,
                                           .parts = t->pieces * t->threads,
                                           .work = mine});
}

static void run_piece(const bench *b, const candidate *c, int piece, int pieces)
{
    int threads = sp_pool_threads(b->pool);
    team t = {&c->call, c->work, c->each, threads, c->call.job.panels / threads * threads, piece, pieces};
    if (pieces > 1) t.whole = 0;
    sp_pool_run(b->pool, work, &t);
}
static void run(const bench *b, const candidate *c)
{
    run_piece(b, c, 0, 1);
}

/* ------------------------------------------------------------------ checking */

/* First, middle and last token against sums in double. */
static sparta_status check(const bench *b, const candidate *c)
{
    const int64_t token[CHECKED] = {0, b->r->m / 2, b->r->m - 1};
    double worst = 0, most = 0;
    memset(b->y, 0, (size_t)(sp_panels(b->r->m) * sp_panel_rows(b->r->n) * SP_PANEL) * sizeof *b->y);
    if (!sp_implement_panels(c->im)) memset(b->y_rows, 0, (size_t)(b->r->m * b->r->n) * sizeof *b->y_rows);
    run(b, c);
    for (int i = 0; i < CHECKED; i++)
        for (int64_t n = 0; n < b->r->n; n++) {
            const float *w = (const float *)b->w.data + n * b->r->k;
            double sum = 0;
            for (int64_t k = 0; k < b->r->k; k++)
                if (w[k] != 0) sum += (double)w[k] * lane(b->x, b->r->k, token[i], k);
            const double y = !sp_implement_panels(c->im) ? b->y_rows[token[i] * b->r->n + n]
                                                         : lane(b->y, b->r->n, token[i], n);
            worst = isnan(y) ? INFINITY : fmax(worst, fabs(sum - y));
            most = fmax(most, fabs(sum));
        }
    if (worst <= 1e-6 + 1e-4 * most) return SPARTA_OK;
    return sp_fail(b->cx, SPARTA_E_DIFFER,
                   "kernel bench: implement %s is off by %g at a size of %g; report it as a bug", c->im->name,
                   worst, most);
}

/* ------------------------------------------------------------------ timing */

/* Seconds a call, the mean of the window's spans. */
static double window(const bench *b, candidate *c)
{
    double sum = 0;
    for (int64_t s = 0; s < c->spans; s++)
        for (int p = 0; p < c->pieces; p++) {
            const double start = sp_now();
            for (int64_t i = 0; i < c->repeats; i++) run_piece(b, c, p, c->pieces);
            const double took = (sp_now() - start) / (double)c->repeats;
            c->piece[p] = fmin(c->piece[p], took);
            sum += took;
        }
    return sum / (double)c->spans;
}

static double best_of(const candidate *c)
{
    double sum = 0;
    for (int p = 0; p < c->pieces; p++) sum += c->piece[p];
    return sum;
}

/* Spans long enough for the clock, short enough to fit between two interruptions. Returns how long one takes. */
static double calibrate(const bench *b, candidate *c)
{
    c->repeats = c->spans = 1;
    c->pieces = sp_implement_few(&b->task) ? (int)SP_MIN(SP_MAX(c->bytes / PIECE, 1), PIECES) : 1;
    window(b, c);
    double once = window(b, c);
    c->repeats = SP_MAX(1, (int64_t)(30e-6 / SP_MAX(once, 1e-9)));
    return once * (double)c->repeats;
}

/* Windows as long as the longest span: a fast kernel in short windows would find quiet moments that a slow one never has. */
static sparta_status prepare(bench *b)
{
    double span[ROWS], longest = 200e-6;
    for (int i = 0; i < b->n; i++) {
        b->row[i].times = sp_arena_array(b->arena, WINDOWS, sizeof(double));
        SP_NEED(b->cx, b->row[i].times);
        span[i] = calibrate(b, &b->row[i]);
        longest = fmax(longest, span[i]);
    }
    for (int i = 0; i < b->n; i++) {
        candidate *c = &b->row[i];
        c->spans = SP_MAX(1, (int64_t)(longest / SP_MAX(span[i], 1e-6) + 0.5));
        for (int p = 0; p < c->pieces; p++) c->piece[p] = INFINITY;
    }
    return SPARTA_OK;
}

static sparta_status time_all(bench *b)
{
    const int least = b->r->quick ? 4 : 20;
    SP_TRY(prepare(b));
    double start = sp_now(), all = b->r->seconds * b->n;
    for (int64_t n = 0; n < WINDOWS && (n < least || sp_now() - start < all); n++) {
        SP_TRY(sp_check_cancel(b->cx));
        for (int i = 0; i < b->n; i++) {
            candidate *c = &b->row[i];
            c->times[c->n++] = window(b, c);
            c->best = best_of(c);
        }
    }
    return SPARTA_OK;
}

static void measure_peak(bench *b)
{
    if (b->r->quick) return;
    double peak = sp_peak_flops(b->target, sp_pool_threads(b->pool), 0.1);
    b->peak = fmax(b->peak, peak);
    if (sp_implement_few(&b->task))
        b->bandwidth = fmax(b->bandwidth, sp_peak_bandwidth(sp_pool_threads(b->pool), 0.2));
}

/* ------------------------------------------------------------------ the answer */

static candidate *fastest(bench *b, bool sparse)
{
    candidate *best = NULL;
    for (int i = 0; i < b->n; i++)
        if (b->row[i].im->sparse == sparse && (!best || b->row[i].best < best->best)) best = &b->row[i];
    return best;
}

/* The one the answer is about: the row with the format that is asked for, else the fastest sparse one, else the fastest. */
static candidate *subject(bench *b)
{
    for (int i = 0; i < b->n; i++)
        if (b->row[i].im == b->asked) return &b->row[i];
    candidate *sparse = fastest(b, true);
    return sparse ? sparse : fastest(b, false);
}

static void fill_rates(const bench *b, const candidate *c, sp_kernel_result *r)
{
    r->nnz = sp_mask_count(&b->mask);
    r->stored_bytes = c->bytes;
    r->gops_real = 2e-9 * (double)b->r->m * (double)r->nnz / c->best;
    r->gops_dense_equivalent = 2e-9 * (double)b->r->m * (double)b->r->n * (double)b->r->k / c->best;
    r->peak_gops = b->peak * 1e-9;
    r->share_of_peak = r->peak_gops > 0 ? r->gops_real / r->peak_gops : 0;
    r->gbytes_per_s = 1e-9 * (double)r->stored_bytes / c->best;
    r->peak_gbytes_per_s = b->bandwidth * 1e-9;
    r->share_of_bandwidth = b->bandwidth > 0 ? r->gbytes_per_s / r->peak_gbytes_per_s : 0;
}

static sparta_status fill(bench *b, sp_kernel_result *out)
{
    candidate *c = subject(b), *dense = fastest(b, false);
    sp_comparison found = {.noisy = false};
    sp_kernel_result r = {.threads = sp_pool_threads(b->pool), .best_us = c->best * 1e6};
    SP_TRY(sp_compare(b->cx, c->times, (dense ? dense : c)->times, c->n, b->r->seed + 2, &found));
    r.median_us = found.a.median * 1e6;
    r.noisy = found.noisy;
    fill_rates(b, c, &r);
    snprintf(r.implement, sizeof r.implement, "%s", c->im->name);
    snprintf(r.parameters, sizeof r.parameters, "%s", c->parameters);
    snprintf(r.format, sizeof r.format, "%s", c->format);
    snprintf(r.pattern, sizeof r.pattern, "%s", b->task.pattern.name);
    snprintf(r.isa, sizeof r.isa, "%s", sp_target_name(c->object ? b->target : SP_TARGET_PORTABLE));
    if (dense) {
        r.dense_best_us = dense->best * 1e6;
        r.dense_median_us = found.b.median * 1e6;
        r.ratio_to_dense = found.ratio;
        r.ratio_lo = found.lo;
        r.ratio_hi = found.hi;
        snprintf(r.dense_name, sizeof r.dense_name, "%s", dense->im->name);
    }
    *out = r;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ which rows take part */

/* The row of the format that is asked for, and dense ones to compare it with; without one all that match. */
static sparta_status takes_part(bench *b, const sp_implement *im, bool *out)
{
    sp_text t;
    sp_format has;
    b->task.asked = im == b->asked;
    *out = im->kernel && im->format && sp_implement_matches(im, &b->task);
    if (!*out || !b->asked) return SPARTA_OK;
    if (im != b->asked) *out = !im->sparse && !b->r->alone;
    if (im != b->asked || !im->settings) return SPARTA_OK;
    sp_text_init(&t, b->cx);
    im->format(&b->task, &t);
    sparta_status status = t.status ? t.status : sp_format_parse(b->cx, sp_text_str(&t), &has);
    sp_text_free(&t);
    *out = !status && sp_format_equal(&has, &b->format);
    return status;
}

static sparta_status candidates(bench *b)
{
    bool taken = false;
    for (int i = 0; i < sp_implement_count() && b->n < ROWS; i++) {
        const sp_implement *im = sp_implement_row(i);
        for (int k = 0; k < sp_implement_settings(im) && b->n < ROWS; k++) {
            bool takes;
            b->task.setting = k;
            SP_TRY(takes_part(b, im, &takes));
            if (!takes) continue;
            candidate *c = &b->row[b->n++];
            c->im = im;
            taken |= im == b->asked;
            SP_TRY(build(b, c));
            SP_TRY(check(b, c));
        }
    }
    if (b->asked && !taken)
        return sp_fail(
            b->cx, SPARTA_E_UNSUPPORTED,
            "kernel bench: implement %s does not take this weight in format %.200s; leave --strict or "
            "--format out",
            b->asked->name, b->r->format);
    if (b->n) return SPARTA_OK;
    return sp_fail(b->cx, SPARTA_E_UNSUPPORTED,
                   "kernel bench: no implement takes %lldx%lldx%lld; try other sizes", (long long)b->r->m,
                   (long long)b->r->n, (long long)b->r->k);
}

/* What --format asks for: that it fits the weight, stores no more than the limit, and what runs it. */
static sparta_status look_up_format(bench *b)
{
    const char *text = b->r->format;
    sp_format_stats stats;
    sp_text canonical;
    if (!text) return SPARTA_OK;
    SP_TRY(sp_format_parse(b->cx, text, &b->format));
    SP_TRY(sp_format_check(b->cx, &b->format, 2, b->w.dim));
    SP_TRY(sp_format_measure(b->cx, &b->format, &b->w, &b->mask, &stats));
    SP_TRY(sp_format_within(b->cx, &b->format, &stats, b->r->limit > 0 ? b->r->limit : SP_FORMAT_LIMIT));
    SP_TRY(sp_implement_for_format(b->cx, &b->format, sp_schedule_says_widths(text), b->r->n, b->r->k,
                                   &b->asked));
    if (!b->asked)
        return sp_fail(b->cx, SPARTA_E_UNSUPPORTED, "kernel bench: no implement stores a weight as %.200s",
                       text);
    if (b->asked != &sp_implement_walk) return SPARTA_OK;
    sp_text_init(&canonical, b->cx);
    sp_format_print(&b->format, &canonical);
    b->task.format = canonical.status ? NULL : sp_arena_string(b->arena, sp_text_str(&canonical));
    sp_text_free(&canonical);
    SP_NEED(b->cx, b->task.format);
    return SPARTA_OK;
}

static sparta_status measure(bench *b, sp_kernel_result *out)
{
    SP_TRY(sp_kernel_weight(b->cx, b->arena, b->r, &b->w));
    SP_TRY(make_node(b));
    SP_TRY(look_up_format(b));
    SP_TRY(make_activations(b));
    b->pool = sp_pool_create(b->cx, b->r->threads);
    SP_NEED(b->cx, b->pool);
    SP_TRY(candidates(b));
    measure_peak(b);
    SP_TRY(time_all(b));
    measure_peak(b);
    return fill(b, out);
}

static void clean(bench *b)
{
    for (int i = 0; i < b->n; i++) {
        if (b->row[i].has_packed) sp_packed_free(b->cx, &b->row[i].packed);
        if (b->row[i].object) sp_jit_close(b->row[i].object);
    }
    sp_pool_free(b->pool);
    sp_mask_free(b->cx, &b->mask);
    sp_graph_free(b->g);
    sp_arena_free(b->arena);
}

sparta_status sp_kernel_bench(sparta_ctx *cx, const sp_kernel_request *given, sp_kernel_result *out)
{
    sp_kernel_request request = *given;
    const sp_kernel_request *r = &request;
    bench b = {.cx = cx, .r = r, .target = sp_target_best()};
    if (r->weight && r->weight->rank != 2)
        return sp_fail(cx, SPARTA_E_SHAPE,
                       "kernel bench: the weight has %d dimensions; give a matrix, (outputs, inputs)",
                       r->weight->rank);
    if (r->weight) request.n = r->weight->dim[0], request.k = r->weight->dim[1];
    if (r->m < 1 || r->n < 1 || r->k < 1)
        return sp_fail(cx, SPARTA_E_USAGE, "kernel bench: m, n and k must be at least 1");
    if (r->target && (!sp_target_parse(r->target, &b.target) || !sp_target_fits(b.target)))
        return sp_fail(cx, SPARTA_E_USAGE,
                       "kernel bench: this machine has no target \"%s\"; `sparta doctor` lists them",
                       r->target);
    b.arena = sp_arena_create(cx);
    SP_NEED(cx, b.arena);
    sparta_status status = measure(&b, out);
    clean(&b);
    return status;
}
