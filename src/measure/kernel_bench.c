/* kernel bench: one product by itself, on activations that already lie as its implements take them: in panels, or in rows.
 *
 * The weight is random and pruned as asked, or given; every Linear row of implements.def that takes it, at every point of its space, is put on one
 * bed (tune/bed.h), built as compile builds it and checked; then all race. The answer is the fastest sparse row (the fastest of all
 * when none takes the weight; the one that stores the format when one is asked for) beside the fastest dense one. Their ratio is that of the
 * medians of windows, with its interval. Shares are best over best: the fastest span of the kernel over the
 * fastest window of the peak, which is measured before and after. Few tokens (16 at most) leave nothing to do but to read the weight:
 * then the share of the bandwidth is told, too, on the bytes that are stored. */
#include "measure/kernel_weight.h"
#include "ops/ops.h"
#include "schedule/schedule.h"
#include "tune/bed.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct candidate {
    sp_contender c;
    const char *parameters;
} candidate;

typedef struct bench {
    sparta_ctx *cx;
    sp_arena *arena;
    const sp_kernel_request *r;
    sp_target target;
    sp_graph *g;
    sp_node *node;
    sparta_tensor w; /* (n, k) */
    sp_task task;
    sp_pool *pool;
    sp_bed *bed;
    const sp_implement *asked; /* that stores the request's format; NULL: none is asked for */
    sp_format format;          /* asked for */
    int n, room;
    candidate *row;
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
                      {.name = "epilogue", .kind = SP_ATTR_STRING, .s = ""}};
    SP_TRY(sp_graph_add_node(b->g, SP_OP_Linear, "product", 2, in, 1, &out, &(sp_attrs){2, attr}, &b->node));
    SP_TRY(sp_ops_infer_node(b->g, b->node));
    SP_TRY(sp_implement_task(b->cx, b->node, b->target, b->r->m, &b->task));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ candidates */

static sparta_status add_row(bench *b, const sp_implement *im, candidate **out)
{
    SP_GROW(b->arena, b->row, b->n, b->room);
    *out = &b->row[b->n++];
    **out = (candidate){.c = {.im = im}};
    memcpy((*out)->c.point, b->task.point, sizeof b->task.point);
    return SPARTA_OK;
}

static sparta_status build(bench *b, candidate *c)
{
    sp_text t;
    sp_text_init(&t, b->cx);
    c->c.im->parameters(c->c.im, &b->task, &t);
    c->parameters = sp_text_keep(&t, b->arena);
    SP_NEED(b->cx, c->parameters);
    sparta_status status = sp_implement_code(b->cx, c->c.im->kernel, c->parameters, b->target, &c->c.object);
    if (!status) status = sp_bed_check(b->bed, &c->c);
    if (status || c->c.found.ok) return status;
    if (c->c.outside)
        return sp_fail(b->cx, SPARTA_E_DIFFER,
                       "kernel bench: implement %s writes outside of %s; report it as a bug", c->c.im->name,
                       c->c.outside);
    return sp_fail(b->cx, SPARTA_E_DIFFER,
                   "kernel bench: implement %s is off by %g at a size of %g; report it as a bug",
                   c->c.im->name, c->c.found.max_abs, c->c.found.largest);
}

/* ------------------------------------------------------------------ timing */

static sparta_status time_all(bench *b)
{
    sp_contender **all = sp_arena_array(b->arena, (size_t)b->n, sizeof *all);
    SP_NEED(b->cx, all);
    for (int i = 0; i < b->n; i++) all[i] = &b->row[i].c;
    return sp_bed_race(b->bed, all, b->n, b->r->seconds, b->r->quick ? 4 : 20);
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
        if (b->row[i].c.im->sparse == sparse && (!best || b->row[i].c.best < best->c.best)) best = &b->row[i];
    return best;
}

/* The one the answer is about: the row with the format that is asked for (the faster of those that store any), else the fastest sparse one, else the fastest. */
static candidate *subject(bench *b)
{
    for (int i = 0; i < b->n && !sp_implement_stores_any(b->asked); i++)
        if (b->row[i].c.im == b->asked) return &b->row[i];
    candidate *sparse = fastest(b, true);
    return sparse ? sparse : fastest(b, false);
}

/* Two rows run formats that nobody wrote a kernel for: both are told, the answer has one. */
static void note_rivals(bench *b)
{
    const candidate *any[2] = {NULL, NULL};
    for (int i = 0; i < b->n; i++) {
        if (b->row[i].c.im == &sp_implement_generated_linear) any[0] = &b->row[i];
        if (b->row[i].c.im == &sp_implement_walk) any[1] = &b->row[i];
    }
    if (any[0] && any[1])
        sp_note(b->cx, "kernel bench: %s takes %.1f us, %s %.1f us", any[0]->c.im->name, any[0]->c.best * 1e6,
                any[1]->c.im->name, any[1]->c.best * 1e6);
}

static void fill_rates(const bench *b, const candidate *c, sp_kernel_result *r)
{
    r->nnz = sp_mask_count(b->task.mask);
    r->stored_bytes = c->c.bytes;
    r->gops_real = 2e-9 * (double)b->r->m * (double)r->nnz / c->c.best;
    r->gops_dense_equivalent = 2e-9 * (double)b->r->m * (double)b->r->n * (double)b->r->k / c->c.best;
    r->peak_gops = b->peak * 1e-9;
    r->share_of_peak = r->peak_gops > 0 ? r->gops_real / r->peak_gops : 0;
    r->gbytes_per_s = 1e-9 * (double)r->stored_bytes / c->c.best;
    r->peak_gbytes_per_s = b->bandwidth * 1e-9;
    r->share_of_bandwidth = b->bandwidth > 0 ? r->gbytes_per_s / r->peak_gbytes_per_s : 0;
}

static sparta_status fill(bench *b, sp_kernel_result *out)
{
    candidate *c = subject(b), *dense = fastest(b, false);
    sp_comparison found = {.noisy = false};
    sp_kernel_result r = {.threads = sp_pool_threads(b->pool), .best_us = c->c.best * 1e6};
    SP_TRY(sp_compare(b->cx, c->c.times, (dense ? dense : c)->c.times, c->c.n_times, b->r->seed + 2, &found));
    r.median_us = found.a.median * 1e6;
    r.noisy = found.noisy;
    r.disturbed = sp_bed_disturbed(b->bed);
    fill_rates(b, c, &r);
    snprintf(r.implement, sizeof r.implement, "%s", c->c.im->name);
    snprintf(r.parameters, sizeof r.parameters, "%s", c->parameters);
    snprintf(r.point, sizeof r.point, "%s", c->c.point);
    snprintf(r.format, sizeof r.format, "%s", c->c.format);
    snprintf(r.pattern, sizeof r.pattern, "%s", b->task.pattern.name);
    snprintf(r.isa, sizeof r.isa, "%s", sp_target_name(c->c.object ? b->target : SP_TARGET_PORTABLE));
    if (dense) {
        r.dense_best_us = dense->c.best * 1e6;
        r.dense_median_us = found.b.median * 1e6;
        r.ratio_to_dense = found.ratio;
        r.ratio_lo = found.lo;
        r.ratio_hi = found.hi;
        snprintf(r.dense_name, sizeof r.dense_name, "%s", dense->c.im->name);
    }
    *out = r;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ which rows take part */

/* The row of the format that is asked for, and dense ones to compare it with; without one all that match. */
static sparta_status takes_part(bench *b, const sp_implement *im, bool *out)
{
    sp_format has;
    const bool asked = im == b->asked || (sp_implement_stores_any(im) && sp_implement_stores_any(b->asked));
    b->task.asked = asked;
    *out = im->kernel && im->format && sp_implement_matches(im, &b->task);
    if (!*out || !b->asked) return SPARTA_OK;
    if (!asked) *out = !im->sparse && !b->r->alone;
    if (!asked || !im->space) return SPARTA_OK;
    const sparta_status status = sp_implement_format(b->cx, im, &b->task, &has);
    *out = !status && sp_format_equal(&has, &b->format);
    return status;
}

static sparta_status candidates(bench *b)
{
    bool taken = false;
    for (int i = 0; i < sp_implement_count(); i++) {
        const sp_implement *im = sp_implement_row(i);
        for (int k = 0; k < sp_implement_points(im); k++) {
            bool takes;
            candidate *c;
            if (!sp_implement_point(im, k, &b->task)) continue;
            SP_TRY(takes_part(b, im, &takes));
            if (!takes) continue;
            taken |= im == b->asked;
            SP_TRY(add_row(b, im, &c));
            SP_TRY(build(b, c));
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

/* "quads" is stored by nobody, quads(256) is: say so. */
static sparta_status note_walk(bench *b)
{
    for (int i = 0; b->format.opaque && i < sp_implement_count(); i++) {
        const sp_implement *im = sp_implement_row(i);
        sp_task task = {.n = b->r->n, .k = b->r->k};
        for (int k = 0; im->kernel && im->format && k < sp_implement_points(im); k++) {
            sp_format has;
            if (sp_implement_stores_any(im) || !sp_implement_point(im, k, &task)) continue;
            SP_TRY(sp_implement_format(b->cx, im, &task, &has));
            if (has.opaque != b->format.opaque) continue;
            sp_text text;
            sp_text_init(&text, b->cx);
            sp_format_print(&has, &text);
            sp_note(b->cx,
                    "kernel bench: %.100s is run by the generic walker; %s has a kernel of its own, %s",
                    b->r->format, sp_text_str(&text), im->name);
            sp_text_free(&text);
            return SPARTA_OK;
        }
    }
    return SPARTA_OK;
}

/* What --format asks for: that it fits the weight, stores no more than the limit, and what runs it. */
static sparta_status look_up_format(bench *b)
{
    const char *text = b->r->format;
    sp_store_stats stats;
    sp_text canonical;
    if (!text) return SPARTA_OK;
    SP_TRY(sp_format_parse(b->cx, text, &b->format));
    SP_TRY(sp_format_check(b->cx, &b->format, 2, b->w.dim));
    SP_TRY(sp_store_measure(b->cx, &b->format, &b->w, b->task.mask, &stats));
    SP_TRY(sp_store_within(b->cx, &b->format, &stats, b->r->limit > 0 ? b->r->limit : SP_STORE_LIMIT));
    SP_TRY(sp_implement_for_format(b->cx, &b->format, sp_schedule_says_widths(text), b->r->n, b->r->k,
                                   &b->asked));
    if (!b->asked)
        return sp_fail(b->cx, SPARTA_E_UNSUPPORTED, "kernel bench: no implement stores a weight as %.200s",
                       text);
    if (!sp_implement_stores_any(b->asked)) return SPARTA_OK;
    SP_TRY(note_walk(b));
    sp_text_init(&canonical, b->cx);
    sp_format_print(&b->format, &canonical);
    const char *kept = sp_text_keep(&canonical, b->arena);
    SP_NEED(b->cx, kept);
    return sp_implement_ask(b->cx, kept, NULL, b->target, &b->task);
}

static sparta_status measure(bench *b, sp_kernel_result *out)
{
    SP_TRY(sp_kernel_weight(b->cx, b->arena, b->r, &b->w));
    SP_TRY(make_node(b));
    SP_TRY(look_up_format(b));
    b->pool = sp_pool_create(b->cx, b->r->threads);
    SP_NEED(b->cx, b->pool);
    const sp_bed_request bed = {.task = &b->task, .tokens = b->r->m, .seed = b->r->seed + 1, .pool = b->pool};
    SP_TRY(sp_bed_create(b->cx, &bed, &b->bed));
    SP_TRY(candidates(b));
    measure_peak(b);
    SP_TRY(time_all(b));
    measure_peak(b);
    note_rivals(b);
    return fill(b, out);
}

static void clean(bench *b)
{
    for (int i = 0; i < b->n; i++) {
        sp_bed_drop(b->bed, &b->row[i].c);
        if (b->row[i].c.object) sp_jit_close(b->row[i].c.object);
    }
    sp_bed_free(b->bed);
    sp_pool_free(b->pool);
    sp_implement_task_free(b->cx, &b->task);
    sp_graph_free(b->g);
    sp_arena_free(b->arena);
}

sparta_status sp_kernel_bench(sparta_ctx *cx, const sp_kernel_request *given, sp_kernel_result *out)
{
    sp_kernel_request request = *given;
    const sp_kernel_request *r = &request;
    bench b = {.cx = cx, .r = r, .target = sp_target_best(SP_DEVICE_CPU)};
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
