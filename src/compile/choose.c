/* choose: which implement runs each node. Candidates for a Linear are built, checked against the reference, timed and remembered. */
#include "compile/lower.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ tasks */

bool sparta_lower_weight(const sparta_node *n, sparta_tensor *view)
{
    if (n->op != SPARTA_OP_Linear) return false;
    const sparta_tensor *w = n->in[1]->constant;
    if (!w || !w->data || w->rank != 2 || w->dtype != SPARTA_F32) return false;
    *view = *w;
    if (!sparta_attr_int(&n->attrs, "transposed", 0)) { /* (k, n): turn the view */
        view->dim[0] = w->dim[1], view->dim[1] = w->dim[0];
        view->stride[0] = w->stride[1], view->stride[1] = w->stride[0];
    }
    return view->dim[0] > 0 && view->dim[1] > 0;
}

sparta_status sparta_lower_task(sparta_ctx *cx, const sparta_node *n, lower_node *out)
{
    sparta_tensor w;
    out->task = (sparta_task){.node = n, .strict = sparta_ctx_strict(cx)};
    out->kernel = -1;
    if (!sparta_lower_weight(n, &w)) return SPARTA_OK;
    out->task.n = w.dim[0], out->task.k = w.dim[1];
    SPARTA_TRY(sparta_mask_of(cx, &w, &out->mask));
    out->task.mask = &out->mask;
    SPARTA_TRY(sparta_mask_detect(cx, &out->mask, 1.02, &out->task.pattern));
    return sparta_mask_fill(cx, &out->mask, 4, 1, &out->task.strip_fill);
}

void sparta_lower_key(const lower_node *ln, const sparta_implement *im, sparta_target target,
                      sparta_text *out)
{
    const sparta_task *t = &ln->task;
    sparta_text_printf(out, "linear n=%ld k=%ld tokens=%d ", (long)t->n, (long)t->k, LOWER_TOKENS);
    if (im->parameters) im->parameters(t, out);
    sparta_text_printf(out, " mask=%016lx target=%s cpu=%016lx sparta=%s",
                       im->sparse ? (unsigned long)sparta_mask_digest(t->mask) : 0,
                       sparta_target_name(target), (unsigned long)sparta_cpu_digest(), SPARTA_VERSION);
}

sparta_status sparta_lower_kernel(lowering *l, const char *kernel, const char *parameters, int *out)
{
    for (int i = 0; i < l->n_kernels; i++)
        if (!strcmp(l->kernel[i].kernel, kernel) && !strcmp(l->kernel[i].parameters, parameters)) {
            *out = i;
            return SPARTA_OK;
        }
    if (l->n_kernels == LOWER_KERNELS)
        return sparta_fail(l->cx, SPARTA_E_LIMIT, "compile: more than %d different kernels", LOWER_KERNELS);
    sparta_text text;
    sparta_text_init(&text, l->cx);
    sparta_status s = sparta_implement_text(kernel, parameters, l->target, &text);
    lower_kernel k = {kernel, sparta_arena_string(l->arena, parameters),
                      s == SPARTA_OK ? sparta_arena_string(l->arena, sparta_text_str(&text)) : NULL, NULL};
    if (s == SPARTA_OK && (!k.parameters || !k.source)) s = sparta_ctx_status(l->cx);
    if (s == SPARTA_OK && l->target != SPARTA_TARGET_PORTABLE) {
        sparta_jit_rung rung;
        s = sparta_jit_get(l->cx, l->target, sparta_text_str(&text), &k.object, &rung);
        if (s == SPARTA_E_COMPILER) { /* the portable kernels are always there; jit left a note */
            sparta_note(l->cx, "%s", sparta_message(l->cx));
            s = SPARTA_OK;
        }
    }
    sparta_text_free(&text);
    SPARTA_TRY(s);
    l->kernel[l->n_kernels] = k;
    *out = l->n_kernels++;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ candidates: a Linear on made-up activations */

enum { SAMPLES = 4 };
static const int sample_lane[SAMPLES] = {0, 21, 42, 127}; /* tokens that are compared with the reference */

typedef struct bed {                           /* activations that all candidates of one layer share */
    float *x, *residual, *y;                   /* panels of LOWER_TOKENS tokens */
    float *x_rows, *residual_rows, *reference; /* the sampled tokens in rows */
    bool checked;
} bed;

static void bed_free(sparta_ctx *cx, bed *b)
{
    float *all[] = {b->x, b->residual, b->y, b->x_rows, b->residual_rows, b->reference};
    for (size_t i = 0; i < SPARTA_COUNT(all); i++) sparta_free(cx, all[i]);
}

static float *panels_of(sparta_ctx *cx, int64_t features, bool stat)
{
    const size_t gap = (size_t)sparta_panel_rows(features) * SPARTA_PANEL + (stat ? 2 * SPARTA_PANEL : 0);
    return sparta_alloc_array(cx, gap * LOWER_TOKENS / SPARTA_PANEL, sizeof(float));
}

static void random_panels(float *p, int64_t features, sparta_rng *rng, float *rows)
{
    const int64_t gap = sparta_panel_rows(features) * SPARTA_PANEL;
    for (int64_t i = 0; i < gap * LOWER_TOKENS / SPARTA_PANEL; i++)
        p[i] = (float)(sparta_rng_uniform(rng) * 2 - 1);
    for (int s = 0; s < SAMPLES; s++)
        for (int64_t f = 0; f < features; f++)
            rows[s * features + f] =
                p[sample_lane[s] / SPARTA_PANEL * gap + f * SPARTA_PANEL + sample_lane[s] % SPARTA_PANEL];
}

static sparta_status bed_make(lowering *l, const lower_node *ln, bed *b)
{
    const sparta_node *node = ln->node;
    const int64_t n = ln->task.n, k = ln->task.k;
    sparta_rng rng = sparta_rng_seed(7);
    b->x = panels_of(l->cx, k, false);
    b->residual = panels_of(l->cx, n, false);
    b->y = panels_of(l->cx, n, true);
    b->x_rows = sparta_alloc_array(l->cx, (size_t)(SAMPLES * k), sizeof(float));
    b->residual_rows = sparta_alloc_array(l->cx, (size_t)(SAMPLES * n), sizeof(float));
    b->reference = sparta_alloc_array(l->cx, (size_t)(SAMPLES * n), sizeof(float));
    if (!b->x || !b->residual || !b->y || !b->x_rows || !b->residual_rows || !b->reference)
        return sparta_ctx_status(l->cx);
    random_panels(b->x, k, &rng, b->x_rows);
    random_panels(b->residual, n, &rng, b->residual_rows);
    sparta_tensor in[4] = {sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){SAMPLES, k}, b->x_rows),
                           *node->in[1]->constant,
                           {.rank = -1},
                           {.rank = -1}};
    if (node->n_in > 2 && node->in[2]) in[2] = *node->in[2]->constant;
    if (node->n_in > 3 && node->in[3])
        in[3] = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){SAMPLES, n}, b->residual_rows);
    const sparta_tensor out = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){SAMPLES, n}, b->reference);
    return sparta_call_builtin(l->cx, node, in, &out);
}

static sparta_operand panel_operand(float *p, int64_t features, bool stat)
{
    const int64_t rows = sparta_panel_rows(features) * SPARTA_PANEL;
    return (sparta_operand){.kind = SPARTA_OPERAND_PANELS,
                            .tensor =
                                sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){LOWER_TOKENS, features}, NULL),
                            .panel = p,
                            .gap = rows + (stat ? 2 * SPARTA_PANEL : 0),
                            .stat = p + rows};
}

static sparta_status candidate_call(lowering *l, const lower_node *ln, const bed *b, const sparta_packed *w,
                                    const sparta_object *object, sparta_call *out)
{
    const sparta_node *node = ln->node;
    sparta_job *j = &out->job;
    SPARTA_TRY(sparta_call_bind(l->cx, node, "linear", object, out));
    j->in[0] = panel_operand(b->x, ln->task.k, false);
    j->in[1] = (sparta_operand){.kind = SPARTA_OPERAND_PACKED, .tensor = *node->in[1]->constant, .packed = w};
    if (node->n_in > 2 && node->in[2])
        j->in[2] = (sparta_operand){.kind = SPARTA_OPERAND_ROWS, .tensor = *node->in[2]->constant};
    if (node->n_in > 3 && node->in[3]) j->in[3] = panel_operand(b->residual, ln->task.n, false);
    j->out[0] = panel_operand(b->y, ln->task.n, true);
    j->tokens = LOWER_TOKENS;
    j->panels = LOWER_TOKENS / SPARTA_PANEL;
    j->stat = ln->task.stat;
    SPARTA_TRY(out->kernel->prepare(l->cx, l->arena, j));
    return out->kernel->check(l->cx, j);
}

static bool agrees(const lower_node *ln, const bed *b)
{
    const int64_t n = ln->task.n, gap = sparta_panel_rows(n) * SPARTA_PANEL + 2 * SPARTA_PANEL;
    double most = 0, worst = 0;
    for (int s = 0; s < SAMPLES; s++)
        for (int64_t i = 0; i < n; i++) {
            const double r = b->reference[s * n + i];
            const double y =
                b->y[sample_lane[s] / SPARTA_PANEL * gap + i * SPARTA_PANEL + sample_lane[s] % SPARTA_PANEL];
            if (isnan(r) && isnan(y)) continue;
            if (isinf(r) && r == y) continue;
            if (fabs(r) > most) most = fabs(r);
            if (!(fabs(r - y) <= worst)) worst = isnan(r - y) ? INFINITY : fabs(r - y);
        }
    return worst <= 1e-6 + 1e-4 * most;
}

typedef struct timed {
    const sparta_call *call;
} timed;
static void run_call(void *arg)
{
    sparta_call_all(((timed *)arg)->call, NULL);
}

/* Build, check and time one row. *us stays 0 when it gives a wrong answer: then it cannot win. */
static sparta_status try_candidate(lowering *l, const lower_node *ln, bed *b, const sparta_implement *im,
                                   const lower_kernel *kernel, double *us)
{
    sparta_text text;
    sparta_format format;
    sparta_packed packed;
    sparta_tensor w;
    sparta_text_init(&text, l->cx);
    im->format(&ln->task, &text);
    sparta_status s = text.status;
    if (s == SPARTA_OK) s = sparta_format_parse(l->cx, sparta_text_str(&text), &format);
    sparta_text_free(&text);
    SPARTA_TRY(s);
    sparta_lower_weight(ln->node, &w);
    SPARTA_TRY(sparta_format_pack(l->cx, &format, &w, im->sparse ? ln->task.mask : NULL, &packed));
    sparta_call call;
    s = b->x ? SPARTA_OK : bed_make(l, ln, b);
    if (s == SPARTA_OK) s = candidate_call(l, ln, b, &packed, kernel->object, &call);
    if (s == SPARTA_OK) {
        sparta_call_all(&call, NULL);
        if (agrees(ln, b)) {
            sparta_timing t = {0};
            s = sparta_time(l->cx, run_call, &(timed){&call}, im->sparse ? .015 : .06,
                            &t); /* dense is slower, and timed once a shape */
            *us = t.best * 1e6;
        } else {
            sparta_note(l->cx, "%s: implement %s disagrees with the reference and is not used",
                        ln->node->name, im->name);
        }
    }
    sparta_packed_free(l->cx, &packed);
    return s;
}

/* ------------------------------------------------------------------ decisions */

/* The kernel that a row would run with; without an object it is the portable one. */
static sparta_status kernel_of(lowering *l, const lower_node *ln, const sparta_implement *im,
                               const lower_kernel **out)
{
    sparta_text text;
    int kernel = -1;
    sparta_text_init(&text, l->cx);
    im->parameters(&ln->task, &text);
    sparta_status s = text.status == SPARTA_OK
                          ? sparta_lower_kernel(l, im->kernel, sparta_text_str(&text), &kernel)
                          : text.status;
    sparta_text_free(&text);
    if (s == SPARTA_OK) *out = &l->kernel[kernel];
    return s;
}

static sparta_status measure(lowering *l, const lower_node *ln, bed *b, const sparta_implement *im,
                             double *us, bool *remembered)
{
    sparta_text key;
    sparta_trial trial;
    const lower_kernel *kernel = NULL;
    SPARTA_TRY(kernel_of(l, ln, im, &kernel));
    sparta_text_init(&key, l->cx);
    sparta_lower_key(ln, im, kernel->object ? l->target : SPARTA_TARGET_PORTABLE, &key);
    sparta_status s = key.status;
    *remembered =
        s == SPARTA_OK && sparta_tune_find(l->db, sparta_text_str(&key), &trial, 1) > 0 && trial.us > 0;
    if (*remembered)
        *us = trial.us;
    else if (s == SPARTA_OK)
        s = try_candidate(l, ln, b, im, kernel, us);
    if (s == SPARTA_OK && !*remembered && *us > 0) {
        trial = (sparta_trial){.us = *us, .threads = 1};
        snprintf(trial.implement, sizeof trial.implement, "%s", im->name);
        sparta_tune_add(l->db, sparta_text_str(&key), &trial);
    }
    sparta_text_free(&key);
    return s;
}

static sparta_status choose_linear(lowering *l, lower_node *ln)
{
    bed b = {0};
    double best = INFINITY;
    bool all_remembered = true;
    sparta_status s = SPARTA_OK;
    for (int i = 0; i < sparta_implement_count() && s == SPARTA_OK; i++) {
        const sparta_implement *im = sparta_implement_row(i);
        double us = 0;
        bool remembered = false;
        if (!im->kernel || !im->match(&ln->task)) continue;
        if (im->sparse) ln->sparse = l->request->options.dense_only ? LOWER_FORBIDDEN : LOWER_WRONG;
        if (ln->sparse == LOWER_FORBIDDEN && im->sparse) continue;
        if (l->request->options.no_measure)
            us = im->cost(&ln->task) * LOWER_TOKENS * 2 / 1e5; /* at 100 Gop/s */
        else
            s = measure(l, ln, &b, im, &us, &remembered);
        all_remembered &= remembered;
        if (us > 0 && !im->sparse) ln->dense_us = us;
        if (us > 0 && im->sparse) {
            ln->sparse_us = us;
            ln->sparse = LOWER_TIMED;
        }
        if (us > 0 && us < best && (!ln->pin || im == ln->pin)) {
            best = ln->us = us;
            ln->im = im;
        }
    }
    bed_free(l->cx, &b);
    snprintf(ln->source, sizeof ln->source, "%s",
             l->request->options.no_measure ? "model"
             : all_remembered               ? "database"
                                            : "measured");
    return s;
}

static sparta_status choose(lowering *l, lower_node *ln)
{
    SPARTA_TRY(sparta_lower_pin(l->cx, l->request->obeyed, ln->node, &ln->pin));
    if (ln->task.mask) SPARTA_TRY(choose_linear(l, ln));
    if (ln->pin && ln->im != ln->pin) return sparta_lower_pin_failed(l->cx, l->request->obeyed, ln);
    for (int i = 0; i < sparta_implement_count() && !ln->im; i++) {
        const sparta_implement *im = sparta_implement_row(i);
        if (im->format && ln->task.mask) continue; /* lost or failed above */
        if (im->match(&ln->task)) ln->im = im;
    }
    sparta_lower_reason(ln, l->peak);
    return SPARTA_OK;
}

bool sparta_lower_wants_stat(const sparta_graph *g, const sparta_node *n)
{
    if (n->op != SPARTA_OP_Linear) return false;
    for (int i = 0; i < g->n_nodes; i++) {
        const sparta_task t = {.node = g->node[i]};
        if (g->node[i]->n_in && g->node[i]->in[0] == n->out[0] && sparta_implement_norm.match(&t))
            return true;
    }
    return false;
}

sparta_status sparta_lower_choose(lowering *l)
{
    const sparta_graph *g = l->g;
    l->node = sparta_arena_array(l->arena, (size_t)g->n_nodes + 1, sizeof *l->node);
    l->kernel = sparta_arena_array(l->arena, LOWER_KERNELS, sizeof *l->kernel);
    if (!l->node || !l->kernel) return sparta_ctx_status(l->cx);
    l->n_nodes = g->n_nodes;
    if (!l->request->options.no_measure) l->peak = sparta_peak_flops(l->target, 1, .02);
    for (int i = 0; i < g->n_nodes; i++) {
        lower_node *ln = &l->node[i];
        SPARTA_TRY(sparta_check_cancel(l->cx));
        ln->node = g->node[i];
        SPARTA_TRY(sparta_lower_task(l->cx, g->node[i], ln));
        ln->task.stat = sparta_lower_wants_stat(g, g->node[i]);
        SPARTA_TRY(choose(l, ln));
        if (l->request->progress)
            l->request->progress(l->request->progress_arg, i + 1, g->n_nodes, g->node[i]->name);
    }
    return sparta_lower_pins_used(l->cx, l->request->obeyed);
}
