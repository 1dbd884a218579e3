/* kernel bench: one product by itself, on activations that already lie as its implements take them: in panels, or in rows.
 *
 * The weight is random and pruned as asked; every Linear row of implements.def that takes it is built as
 * compile builds it, checked against the reference on a few tokens, and timed: one window of each in turn, so
 * that all see the same machine. The answer is the fastest sparse row (the fastest of all when none takes the
 * weight) beside the fastest dense one. Shares are best over best: the fastest window of the kernel over the
 * fastest window of the peak, which is measured before and after. Few tokens (16 at most) leave nothing to do but to read the weight:
 * then the share of the bandwidth is told, too, on the bytes that are stored. A weight of many megabytes is then timed in pieces as long as those
 * that the bandwidth is measured with, one after the other, and the best of each piece is added up: one window of 20 ms never has the machine
 * for itself. */
#include "measure/measure.h"
#include "call/call.h"
#include "file/file.h"
#include "implement/implement.h"
#include "ops/ops.h"
#include "prune/prune.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 16, WINDOWS = 100000, CHECKED = 3, PIECES = 128, PIECE = 4 << 20 };

typedef struct candidate {
    const sparta_implement *im;
    char parameters[96];
    sparta_packed packed;
    bool has_packed;
    const sparta_object *object; /* NULL: portable */
    sparta_call call;
    float *work;     /* scratch of all threads, one after the other; NULL: it needs none */
    size_t each;     /* floats of a thread */
    int64_t repeats; /* calls in a window */
    int pieces;      /* a call is timed in so many */
    double best;
    double piece[PIECES]; /* the best of each */
    double *times;
    int64_t n;
} candidate;

typedef struct bench {
    sparta_ctx *cx;
    sparta_arena *arena;
    const sparta_kernel_request *r;
    sparta_target target;
    sparta_graph *g;
    sparta_node *node;
    sparta_tensor w; /* (n, k) */
    sparta_mask mask;
    sparta_task task;
    sparta_pool *pool;
    float *x, *y;           /* panels */
    float *x_rows, *y_rows; /* the same in rows, when the tokens are few */
    int n;
    candidate row[ROWS];
    double peak, bandwidth;
} bench;

/* ------------------------------------------------------------------ the product */

/* A mask file says what stays. */
static sparta_status check_mask(const bench *b, const sparta_arrays *a)
{
    const sparta_tensor *t = a->entry ? &a->entry[0].tensor : NULL;
    if (a->n == 1 && t->rank == 2 && t->dim[0] == b->r->n && t->dim[1] == b->r->k) return SPARTA_OK;
    return sparta_fail(
        b->cx, SPARTA_E_SHAPE,
        "kernel bench: %s must hold one array of %lldx%lld, the mask of the weight, and no other",
        b->r->pattern, (long long)b->r->n, (long long)b->r->k);
}

static sparta_status apply_mask(bench *b)
{
    sparta_arrays arrays;
    sparta_mask mask = {0};
    float *w = b->w.data;
    SPARTA_TRY(sparta_arrays_open(b->cx, b->r->pattern, &arrays));
    sparta_status status = check_mask(b, &arrays);
    if (!status) status = sparta_mask_of(b->cx, &arrays.entry[0].tensor, &mask);
    for (int64_t n = 0; !status && n < b->r->n; n++)
        for (int64_t k = 0; k < b->r->k; k++)
            if (!sparta_mask_get(&mask, n, k)) w[n * b->r->k + k] = 0;
    sparta_mask_free(b->cx, &mask);
    sparta_arrays_close(&arrays);
    return status;
}

static sparta_status make_weight(bench *b)
{
    const sparta_kernel_request *r = b->r;
    int64_t dim[2] = {r->n, r->k};
    sparta_rng rng = sparta_rng_seed(r->seed);
    SPARTA_TRY(sparta_tensor_alloc_in(b->arena, SPARTA_F32, 2, dim, &b->w));
    float *w = b->w.data;
    for (int64_t i = 0; i < r->n * r->k; i++) { /* odd numerators: never 0 */
        w[i] = (float)((int32_t)(sparta_rng_next(&rng) >> 40) * 2 + 1 - (1 << 24)) * 0x1p-26f;
    }
    if (strchr(r->pattern, '.')) return apply_mask(b);
    if (strcmp(r->pattern, "dense") && (strchr(r->pattern, ':') || r->sparsity > 0)) {
        sparta_prune_spec spec;
        const char *text = strchr(r->pattern, ':')
                               ? r->pattern
                               : sparta_arena_printf(b->arena, "%s:%.9g", r->pattern, r->sparsity);
        SPARTA_NEED(b->cx, text);
        SPARTA_TRY(sparta_prune_parse(b->cx, text, &spec));
        SPARTA_TRY(sparta_prune(b->cx, &spec, &b->w, NULL));
    }
    return SPARTA_OK;
}

/* y[tokens, n] = Linear(x[tokens, k], w): what the rows of implements.def look at. */
static sparta_status make_node(bench *b)
{
    sparta_value *in[2] = {NULL, NULL}, *out = NULL;
    sparta_dims dims = {.rank = 2};
    SPARTA_TRY(sparta_graph_create(b->cx, "kernel", &b->g));
    dims.dim[0] = sparta_expr_const(b->g->arena, b->r->m);
    dims.dim[1] = sparta_expr_const(b->g->arena, b->r->k);
    if (!dims.dim[0] || !dims.dim[1]) return sparta_ctx_status(b->cx);
    SPARTA_TRY(sparta_graph_add_input(b->g, "x", SPARTA_F32, &dims, &in[0]));
    SPARTA_TRY(sparta_graph_add_constant(b->g, "w", &b->w, false, &in[1]));
    sparta_attr attr[] = {{.name = "transposed", .kind = SPARTA_ATTR_INT, .i = 1},
                          {.name = "activation", .kind = SPARTA_ATTR_STRING, .s = ""}};
    SPARTA_TRY(sparta_graph_add_node(b->g, SPARTA_OP_Linear, "product", 2, in, 1, &out,
                                     &(sparta_attrs){2, attr}, &b->node));
    SPARTA_TRY(sparta_ops_infer_node(b->g, b->node));
    b->task = (sparta_task){.node = b->node, .n = b->r->n, .k = b->r->k, .strict = sparta_ctx_strict(b->cx)};
    b->task.library = sparta_implement_library(b->target);
    SPARTA_TRY(sparta_mask_of(b->cx, &b->w, &b->mask));
    b->task.mask = &b->mask;
    b->task.tokens = b->r->m;
    if (sparta_implement_few(&b->task))
        SPARTA_TRY(sparta_mask_fill(b->cx, &b->mask, 16, 1, &b->task.strip16_fill));
    SPARTA_TRY(sparta_mask_detect(b->cx, &b->mask, 1.02, &b->task.pattern));
    return sparta_mask_fill(b->cx, &b->mask, 4, 1, &b->task.strip_fill);
}

static float *panels(bench *b, int64_t features)
{
    size_t n;
    if (!sparta_size_mul((size_t)sparta_panels(b->r->m), (size_t)(sparta_panel_rows(features) * SPARTA_PANEL),
                         &n))
        n = SIZE_MAX;
    return sparta_arena_array(b->arena, n, sizeof(float));
}

static double lane(const float *panel, int64_t features, int64_t token, int64_t f)
{
    return panel[token / SPARTA_PANEL * sparta_panel_rows(features) * SPARTA_PANEL + f * SPARTA_PANEL +
                 token % SPARTA_PANEL];
}

static sparta_status make_rows(bench *b)
{
    if (!sparta_implement_few(&b->task)) return SPARTA_OK;
    b->x_rows = sparta_arena_array(b->arena, (size_t)(b->r->m * b->r->k), sizeof(float));
    SPARTA_NEED(b->cx, b->x_rows);
    b->y_rows = sparta_arena_array(b->arena, (size_t)(b->r->m * b->r->n), sizeof(float));
    SPARTA_NEED(b->cx, b->y_rows);
    for (int64_t t = 0; t < b->r->m; t++)
        for (int64_t k = 0; k < b->r->k; k++) b->x_rows[t * b->r->k + k] = (float)lane(b->x, b->r->k, t, k);
    return SPARTA_OK;
}

static sparta_status make_activations(bench *b)
{
    b->x = panels(b, b->r->k);
    SPARTA_NEED(b->cx, b->x);
    b->y = panels(b, b->r->n);
    SPARTA_NEED(b->cx, b->y);
    sparta_rng rng = sparta_rng_seed(b->r->seed + 1);
    int64_t n = sparta_panels(b->r->m) * sparta_panel_rows(b->r->k) * SPARTA_PANEL;
    for (int64_t i = 0; i < n; i++) b->x[i] = (float)(int32_t)(sparta_rng_next(&rng) >> 40) * 0x1p-23f - 1;
    return make_rows(b);
}

/* ------------------------------------------------------------------ candidates */

static sparta_operand operand(const bench *b, float *rows, float *p, int64_t features)
{
    int64_t dim[2] = {b->r->m, features};
    if (rows)
        return (sparta_operand){.kind = SPARTA_OPERAND_ROWS,
                                .tensor = sparta_tensor_view(SPARTA_F32, 2, dim, rows)};
    return (sparta_operand){.kind = SPARTA_OPERAND_PANELS,
                            .tensor = sparta_tensor_view(SPARTA_F32, 2, dim, NULL),
                            .panel = p,
                            .gap = sparta_panel_rows(features) * SPARTA_PANEL};
}

static sparta_status bind(bench *b, candidate *c)
{
    sparta_job *j = &c->call.job;
    SPARTA_TRY(sparta_call_bind(b->cx, b->node, c->im->kernel, c->object, &c->call));
    j->in[0] = operand(b, c->im->rows ? b->x_rows : NULL, b->x, b->r->k);
    j->in[1] = (sparta_operand){.kind = SPARTA_OPERAND_PACKED, .tensor = b->w, .packed = &c->packed};
    j->out[0] = operand(b, c->im->rows ? b->y_rows : NULL, b->y, b->r->n);
    j->tokens = b->r->m;
    j->panels = sparta_panels(b->r->m);
    SPARTA_TRY(c->call.kernel->prepare(b->cx, b->arena, j));
    SPARTA_TRY(c->call.kernel->check(b->cx, j));
    if (!c->call.kernel->work) return SPARTA_OK;
    c->each = (c->call.kernel->work(j) / sizeof(float) + 15) / 16 * 16;
    c->work = sparta_arena_array(b->arena, c->each * (size_t)sparta_pool_threads(b->pool), sizeof(float));
    SPARTA_NEED(b->cx, c->work);
    return SPARTA_OK;
}

static sparta_status compile_text(bench *b, candidate *c, sparta_text *t)
{
    sparta_jit_rung rung;
    c->im->parameters(&b->task, t);
    snprintf(c->parameters, sizeof c->parameters, "%s", sparta_text_str(t));
    sparta_text_free(t);
    if (b->target == SPARTA_TARGET_PORTABLE) return SPARTA_OK;
    SPARTA_TRY(sparta_implement_text(c->im->kernel, c->parameters, b->target, t));
    sparta_status status = sparta_jit_get(b->cx, b->target, sparta_text_str(t), &c->object, &rung);
    if (status != SPARTA_E_COMPILER) return status;
    sparta_note(b->cx, "%s", sparta_message(b->cx)); /* the portable kernel runs */
    return SPARTA_OK;
}

static sparta_status build(bench *b, candidate *c)
{
    sparta_format format;
    sparta_text t;
    sparta_text_init(&t, b->cx);
    sparta_status status = compile_text(b, c, &t);
    sparta_text_free(&t);
    if (!status) {
        c->im->format(&b->task, &t);
        status = sparta_format_parse(b->cx, sparta_text_str(&t), &format);
    }
    sparta_text_free(&t);
    SPARTA_TRY(status);
    SPARTA_TRY(sparta_format_pack(b->cx, &format, &b->w, c->im->sparse ? &b->mask : NULL, &c->packed));
    c->has_packed = true;
    return bind(b, c);
}

/* ------------------------------------------------------------------ running, as a session runs a group of
 * one step */

typedef struct team {
    const sparta_call *call;
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
        sparta_call_panel(t->call,
                          &(sparta_place){.panel = p, .slot = thread, .part = 0, .parts = 1, .work = mine});
    for (int64_t p = t->whole; p < t->call->job.panels; p++)
        sparta_call_panel(t->call, &(sparta_place){.panel = p,
                                                   .slot = thread,
                                                   .part = t->piece * t->threads + thread,
                                                   .parts = t->pieces * t->threads,
                                                   .work = mine});
}

static void run_piece(const bench *b, const candidate *c, int piece, int pieces)
{
    int threads = sparta_pool_threads(b->pool);
    team t = {&c->call, c->work, c->each, threads, c->call.job.panels / threads * threads, piece, pieces};
    if (pieces > 1) t.whole = 0;
    sparta_pool_run(b->pool, work, &t);
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
    memset(b->y, 0,
           (size_t)(sparta_panels(b->r->m) * sparta_panel_rows(b->r->n) * SPARTA_PANEL) * sizeof *b->y);
    if (c->im->rows) memset(b->y_rows, 0, (size_t)(b->r->m * b->r->n) * sizeof *b->y_rows);
    run(b, c);
    for (int i = 0; i < CHECKED; i++)
        for (int64_t n = 0; n < b->r->n; n++) {
            const float *w = (const float *)b->w.data + n * b->r->k;
            double sum = 0;
            for (int64_t k = 0; k < b->r->k; k++)
                if (w[k] != 0) sum += (double)w[k] * lane(b->x, b->r->k, token[i], k);
            const double y =
                c->im->rows ? b->y_rows[token[i] * b->r->n + n] : lane(b->y, b->r->n, token[i], n);
            worst = isnan(y) ? INFINITY : fmax(worst, fabs(sum - y));
            most = fmax(most, fabs(sum));
        }
    if (worst <= 1e-6 + 1e-4 * most) return SPARTA_OK;
    return sparta_fail(b->cx, SPARTA_E_DIFFER,
                       "kernel bench: implement %s is off by %g at a size of %g; report it as a bug",
                       c->im->name, worst, most);
}

/* ------------------------------------------------------------------ timing */

static int64_t array_bytes(const sparta_tensor *t)
{
    return t->data ? sparta_tensor_elements(t) * (int64_t)sparta_dtype_size(t->dtype) : 0;
}

static int64_t stored_bytes(const sparta_packed *p)
{
    int64_t n = array_bytes(&p->values);
    for (int i = 0; i < SPARTA_LEVELS; i++) n += array_bytes(&p->pos[i]) + array_bytes(&p->crd[i]);
    return n;
}

static double window(const bench *b, candidate *c)
{
    double sum = 0;
    for (int p = 0; p < c->pieces; p++) {
        const double start = sparta_now();
        for (int64_t i = 0; i < c->repeats; i++) run_piece(b, c, p, c->pieces);
        const double took = (sparta_now() - start) / (double)c->repeats;
        c->piece[p] = fmin(c->piece[p], took);
        sum += took;
    }
    return sum;
}

static double best_of(const candidate *c)
{
    double sum = 0;
    for (int p = 0; p < c->pieces; p++) sum += c->piece[p];
    return sum;
}

/* Windows long enough for the clock, short enough to fit between two interruptions. */
static void calibrate(const bench *b, candidate *c)
{
    c->repeats = 1;
    c->pieces = sparta_implement_few(&b->task)
                    ? (int)SPARTA_MIN(SPARTA_MAX(stored_bytes(&c->packed) / PIECE, 1), PIECES)
                    : 1;
    window(b, c);
    double once = window(b, c);
    c->repeats = SPARTA_MAX(1, (int64_t)(30e-6 / SPARTA_MAX(once, 1e-9)));
    for (int p = 0; p < c->pieces; p++) c->piece[p] = INFINITY;
}

static sparta_status time_all(bench *b)
{
    const int least = b->r->quick ? 4 : 20;
    double start = sparta_now(), all = b->r->seconds * b->n;
    for (int i = 0; i < b->n; i++) {
        b->row[i].times = sparta_arena_array(b->arena, WINDOWS, sizeof(double));
        SPARTA_NEED(b->cx, b->row[i].times);
        calibrate(b, &b->row[i]);
    }
    for (int64_t n = 0; n < WINDOWS && (n < least || sparta_now() - start < all); n++) {
        SPARTA_TRY(sparta_check_cancel(b->cx));
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
    double peak = sparta_peak_flops(b->target, sparta_pool_threads(b->pool), 0.1);
    b->peak = fmax(b->peak, peak);
    if (sparta_implement_few(&b->task))
        b->bandwidth = fmax(b->bandwidth, sparta_peak_bandwidth(sparta_pool_threads(b->pool), 0.2));
}

/* ------------------------------------------------------------------ the answer */

static int ascending(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static candidate *fastest(bench *b, bool sparse)
{
    candidate *best = NULL;
    for (int i = 0; i < b->n; i++)
        if (b->row[i].im->sparse == sparse && (!best || b->row[i].best < best->best)) best = &b->row[i];
    return best;
}

static void fill(bench *b, sparta_kernel_result *out)
{
    candidate *dense = fastest(b, false), *c = fastest(b, true);
    sparta_kernel_result r = {.nnz = sparta_mask_count(&b->mask), .threads = sparta_pool_threads(b->pool)};
    if (!c) c = dense;
    qsort(c->times, (size_t)c->n, sizeof *c->times, ascending);
    r.stored_bytes = stored_bytes(&c->packed);
    r.median_us = sparta_quantile(c->times, c->n, 0.5) * 1e6;
    r.best_us = c->best * 1e6;
    r.gops_real = 2e-9 * (double)b->r->m * (double)r.nnz / c->best;
    r.gops_dense_equivalent = 2e-9 * (double)b->r->m * (double)b->r->n * (double)b->r->k / c->best;
    r.peak_gops = b->peak * 1e-9;
    r.share_of_peak = r.peak_gops > 0 ? r.gops_real / r.peak_gops : 0;
    r.gbytes_per_s = 1e-9 * (double)r.stored_bytes / c->best;
    r.peak_gbytes_per_s = b->bandwidth * 1e-9;
    r.share_of_bandwidth = b->bandwidth > 0 ? r.gbytes_per_s / r.peak_gbytes_per_s : 0;
    snprintf(r.implement, sizeof r.implement, "%s", c->im->name);
    snprintf(r.parameters, sizeof r.parameters, "%s", c->parameters);
    snprintf(r.isa, sizeof r.isa, "%s", sparta_target_name(c->object ? b->target : SPARTA_TARGET_PORTABLE));
    if (dense) {
        r.dense_best_us = dense->best * 1e6;
        r.ratio_to_dense = dense->best / c->best;
        snprintf(r.dense_name, sizeof r.dense_name, "%s", dense->im->name);
    }
    *out = r;
}

static sparta_status candidates(bench *b)
{
    for (int i = 0; i < sparta_implement_count() && b->n < ROWS; i++) {
        const sparta_implement *im = sparta_implement_row(i);
        for (int k = 0; k < sparta_implement_settings(im) && b->n < ROWS; k++) {
            b->task.setting = k;
            if (!im->kernel || !im->format || !im->match(&b->task)) continue;
            candidate *c = &b->row[b->n++];
            c->im = im;
            SPARTA_TRY(build(b, c));
            SPARTA_TRY(check(b, c));
        }
    }
    if (b->n) return SPARTA_OK;
    return sparta_fail(b->cx, SPARTA_E_UNSUPPORTED,
                       "kernel bench: no implement takes %lldx%lldx%lld; try other sizes", (long long)b->r->m,
                       (long long)b->r->n, (long long)b->r->k);
}

static sparta_status measure(bench *b, sparta_kernel_result *out)
{
    SPARTA_TRY(make_weight(b));
    SPARTA_TRY(make_node(b));
    SPARTA_TRY(make_activations(b));
    b->pool = sparta_pool_create(b->cx, b->r->threads);
    SPARTA_NEED(b->cx, b->pool);
    SPARTA_TRY(candidates(b));
    measure_peak(b);
    SPARTA_TRY(time_all(b));
    measure_peak(b);
    fill(b, out);
    return SPARTA_OK;
}

static void clean(bench *b)
{
    for (int i = 0; i < b->n; i++) {
        if (b->row[i].has_packed) sparta_packed_free(b->cx, &b->row[i].packed);
        if (b->row[i].object) sparta_jit_close(b->row[i].object);
    }
    sparta_pool_free(b->pool);
    sparta_mask_free(b->cx, &b->mask);
    sparta_graph_free(b->g);
    sparta_arena_free(b->arena);
}

sparta_status sparta_kernel_bench(sparta_ctx *cx, const sparta_kernel_request *r, sparta_kernel_result *out)
{
    bench b = {.cx = cx, .r = r, .target = sparta_target_best()};
    if (r->m < 1 || r->n < 1 || r->k < 1)
        return sparta_fail(cx, SPARTA_E_USAGE, "kernel bench: m, n and k must be at least 1");
    if (r->target && (!sparta_target_parse(r->target, &b.target) || !sparta_target_fits(b.target)))
        return sparta_fail(cx, SPARTA_E_USAGE,
                           "kernel bench: this machine has no target \"%s\"; `sparta doctor` lists them",
                           r->target);
    b.arena = sparta_arena_create(cx);
    SPARTA_NEED(cx, b.arena);
    sparta_status status = measure(&b, out);
    clean(&b);
    return status;
}
