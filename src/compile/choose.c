/* choose: which implement runs each node. Candidates for a Linear are built, checked against the reference, timed and remembered. */
#include "compile/lower.h"
#include "run/run.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ tasks */

bool sp_lower_weight(const sp_node *n, sparta_tensor *view)
{
    if (n->op != SP_OP_Linear) return false;
    const sparta_tensor *w = n->in[1]->constant;
    if (!w || !w->data || w->rank != 2 || w->dtype != SPARTA_F32) return false;
    *view = *w;
    if (!sp_attr_int(&n->attrs, "transposed", 0)) { /* (k, n): turn the view */
        view->dim[0] = w->dim[1], view->dim[1] = w->dim[0];
        view->stride[0] = w->stride[1], view->stride[1] = w->stride[0];
    }
    return view->dim[0] > 0 && view->dim[1] > 0;
}

/* Sizes that shrink as a symbol grows may become more than this says, which costs time and nothing else. What cannot be worked out (a
 * symbol without a bound, an overflow) is no failure: the tokens are not known to be few, and nothing is left of the attempt but that. */
sparta_status sp_lower_most_tokens(sparta_ctx *cx, const sp_graph *g, const sp_value *v, int64_t *out)
{
    sp_symbols all;
    int64_t most[SP_GRAPH_SYMBOLS], tokens = v->dims.rank >= 2;
    sp_bindings b = {0, all.name, most};
    SP_TRY(sp_input_symbols(cx, g, &all));
    for (int i = 0; i < all.n; i++) {
        all.name[b.n] = all.name[i];
        most[b.n] = sp_symbol_bound(g, all.name[i]);
        b.n += most[b.n] <= SP_FEW_TOKENS; /* one that may be more makes for many tokens */
    }
    for (int d = 0; d + 1 < v->dims.rank && tokens; d++) {
        int64_t size = 0;
        const sparta_status s = sp_expr_eval(cx, v->dims.dim[d], &b, &size);
        if (s == SPARTA_E_MEMORY || s == SPARTA_E_CANCELLED) return s;
        if (s != SPARTA_OK) sp_ctx_clear(cx);
        if (size < 1 || !sp_int_mul(tokens, size, &tokens)) tokens = 0;
    }
    *out = tokens;
    return SPARTA_OK;
}

double sp_lower_modelled(const sp_task *t, const sp_implement *im)
{
    const int64_t tokens = sp_lower_tokens(t);
    return im->cost(t) * (double)(sp_implement_panels(im) ? (tokens + 15) / 16 * 16 : tokens) * 2 /
           1e5; /* at 100 Gop/s */
}

sparta_status sp_lower_task(sparta_ctx *cx, const sp_graph *g, const sp_node *n, lower_node *out)
{
    sparta_tensor w;
    out->task = (sp_task){.node = n, .strict = sp_ctx_strict(cx)};
    out->kernel = -1;
    if (!sp_lower_weight(n, &w)) return SPARTA_OK;
    out->task.n = w.dim[0], out->task.k = w.dim[1];
    SP_TRY(sp_lower_most_tokens(cx, g, n->in[0], &out->task.tokens));
    SP_TRY(sp_mask_of(cx, &w, &out->mask));
    out->task.mask = &out->mask;
    SP_TRY(sp_mask_detect(cx, &out->mask, 1.02, &out->task.pattern));
    if (sp_implement_few(&out->task)) SP_TRY(sp_mask_fill(cx, &out->mask, 16, 1, &out->task.strip16_fill));
    return sp_mask_fill(cx, &out->mask, 4, 1, &out->task.strip_fill);
}

sparta_status sp_lower_asked(sparta_ctx *cx, lower_node *ln, double limit)
{
    const sp_effect *pin = ln->pin;
    sparta_tensor w;
    sp_format format;
    sp_format_stats stats = {0};
    ln->task.asked = pin != NULL;
    if (!pin || pin->implement != &sp_implement_walk || !sp_lower_weight(ln->node, &w)) return SPARTA_OK;
    sparta_status s = sp_format_parse(cx, pin->format, &format);
    if (s == SPARTA_OK) s = sp_format_check(cx, &format, 2, w.dim); /* merged layers have another shape */
    if (s == SPARTA_OK) s = sp_format_measure(cx, &format, &w, ln->task.mask, &stats);
    if (s == SPARTA_OK) s = sp_format_within(cx, &format, &stats, limit);
    if (s != SPARTA_OK) {
        sp_fail_in(cx, "format %.100s of '%.100s'", pin->text, ln->node->name);
        return sp_lower_fail_at(cx, pin->at);
    }
    ln->task.format = pin->format;
    return SPARTA_OK;
}

/* What a time has to do with the mask. Of a large one it is how much is present and how that lies in strips, not which elements: layers
 * that look alike share their trials, so that a model of 48 layers of 4 shapes has 4 of them to time. A small one is itself. */
static void print_mask(const sp_task *t, const sp_implement *im, sp_text *out)
{
    if (!im->sparse)
        sp_text_printf(out, "any");
    else if (t->n * t->k < LOWER_ALIKE)
        sp_text_printf(out, "%016lx", (unsigned long)sp_mask_digest(t->mask));
    else
        sp_text_printf(out, "%s,density=%.3g,fill=%.2g,%.2g", t->pattern.name, t->pattern.density,
                       t->strip_fill, t->strip16_fill);
}

void sp_lower_key(const lower_node *ln, const sp_implement *im, sp_target target, sp_text *out)
{
    const sp_task *t = &ln->task;
    sp_text_printf(out, "%s n=%ld k=%ld tokens=%ld ", im->kernel, (long)t->n, (long)t->k,
                   (long)sp_lower_tokens(t));
    if (im->parameters) im->parameters(t, out);
    sp_text_printf(out, " format=");
    im->format(t, out);
    if (im->version) sp_text_printf(out, " library=%s", im->version() ? im->version() : "none");
    sp_text_printf(out, " mask=");
    print_mask(t, im, out);
    sp_text_printf(out, " target=%s cpu=%016lx sparta=%s", sp_target_name(target),
                   (unsigned long)sp_cpu_digest(), SPARTA_VERSION);
}

sparta_status sp_lower_kernel(lowering *l, const char *kernel, const char *parameters, int *out)
{
    for (int i = 0; i < l->n_kernels; i++)
        if (!strcmp(l->kernel[i].kernel, kernel) && !strcmp(l->kernel[i].parameters, parameters)) {
            *out = i;
            return SPARTA_OK;
        }
    if (l->n_kernels == LOWER_KERNELS)
        return sp_fail(l->cx, SPARTA_E_LIMIT, "compile: more than %d different kernels", LOWER_KERNELS);
    sp_text text;
    sp_text_init(&text, l->cx);
    sparta_status s = sp_implement_text(kernel, parameters, l->target, &text);
    lower_kernel k = {kernel, sp_arena_string(l->arena, parameters),
                      s == SPARTA_OK ? sp_arena_string(l->arena, sp_text_str(&text)) : NULL, NULL};
    if (s == SPARTA_OK && (!k.parameters || !k.source)) s = sp_ctx_status(l->cx);
    if (s == SPARTA_OK && l->target != SP_TARGET_PORTABLE) {
        sp_jit_rung rung;
        s = sp_jit_get(l->cx, l->target, sp_text_str(&text), &k.object, &rung);
        if (s == SPARTA_E_COMPILER) { /* the portable kernels are always there; jit left a note */
            sp_note(l->cx, "%s", sparta_message(l->cx));
            s = SPARTA_OK;
        }
    }
    sp_text_free(&text);
    SP_TRY(s);
    l->kernel[l->n_kernels] = k;
    *out = l->n_kernels++;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ candidates: a Linear on made-up activations */

enum { SAMPLES = 4 };

typedef struct bed {         /* activations that all candidates of one layer share */
    int64_t tokens;          /* that they run on */
    int samples;             /* tokens that are compared with the reference: when they are few, all */
    float *x, *residual, *y; /* panels */
    float *x_rows, *residual_rows, *y_rows, *reference; /* the sampled tokens in rows */
    float *work;     /* scratch of the candidate at hand; NULL: it needs none */
    sp_arena *arena; /* of what kernels prepare: a walker's notes are large */
} bed;

static int64_t sample(const bed *b, int s)
{
    static const int64_t spread[SAMPLES] = {0, 21, 42, LOWER_TOKENS - 1};
    return b->samples == b->tokens ? s : spread[s];
}

static void bed_free(sparta_ctx *cx, bed *b)
{
    float *all[] = {b->x, b->residual, b->y, b->x_rows, b->residual_rows, b->y_rows, b->reference, b->work};
    for (size_t i = 0; i < SP_COUNT(all); i++) sp_free(cx, all[i]);
    sp_arena_free(b->arena);
}

/* Floats from one panel to the next; those of outputs have room for statistics. */
static int64_t gap_of(int64_t features, bool stat)
{
    return (sp_panel_rows(features) + (stat ? 2 : 0)) * SP_PANEL;
}
static float *panels_of(sparta_ctx *cx, const bed *b, int64_t features, bool stat)
{
    return sp_alloc_array(cx, (size_t)(gap_of(features, stat) * sp_panels(b->tokens)), sizeof(float));
}
static float *rows_of(sparta_ctx *cx, const bed *b, int64_t features)
{
    return sp_alloc_array(cx, (size_t)(b->samples * features), sizeof(float));
}

static void random_panels(const bed *b, float *p, int64_t features, sp_rng *rng, float *rows)
{
    const int64_t gap = gap_of(features, false);
    for (int64_t i = 0; i < gap * sp_panels(b->tokens); i++) p[i] = (float)(sp_rng_uniform(rng) * 2 - 1);
    for (int s = 0; s < b->samples; s++)
        for (int64_t f = 0, at = sample(b, s); f < features; f++)
            rows[s * features + f] = p[at / SP_PANEL * gap + f * SP_PANEL + at % SP_PANEL];
}

static sparta_status bed_make(lowering *l, const lower_node *ln, bed *b)
{
    const sp_node *node = ln->node;
    const int64_t n = ln->task.n, k = ln->task.k;
    sp_rng rng = sp_rng_seed(7);
    b->tokens = sp_lower_tokens(&ln->task);
    b->samples = sp_implement_few(&ln->task) ? (int)b->tokens : SAMPLES;
    b->arena = sp_arena_create(l->cx);
    b->x = panels_of(l->cx, b, k, false);
    b->residual = panels_of(l->cx, b, n, false);
    b->y = panels_of(l->cx, b, n, true);
    b->x_rows = rows_of(l->cx, b, k);
    b->residual_rows = rows_of(l->cx, b, n);
    b->y_rows = rows_of(l->cx, b, n);
    b->reference = rows_of(l->cx, b, n);
    if (!b->arena || !b->x || !b->residual || !b->y || !b->x_rows || !b->residual_rows || !b->y_rows ||
        !b->reference)
        return sp_ctx_status(l->cx);
    random_panels(b, b->x, k, &rng, b->x_rows);
    random_panels(b, b->residual, n, &rng, b->residual_rows);
    sparta_tensor in[4] = {sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){b->samples, k}, b->x_rows),
                           *node->in[1]->constant,
                           {.rank = -1},
                           {.rank = -1}};
    if (node->n_in > 2 && node->in[2]) in[2] = *node->in[2]->constant;
    if (node->n_in > 3 && node->in[3])
        in[3] = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){b->samples, n}, b->residual_rows);
    const sparta_tensor out = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){b->samples, n}, b->reference);
    return sp_call_builtin(l->cx, node, in, &out);
}

/* An activation as the candidate takes it: rows, or panels p. */
static sp_operand operand(const bed *b, float *rows, float *p, int64_t features, bool stat)
{
    const int64_t dim[2] = {b->tokens, features};
    if (rows)
        return (sp_operand){.kind = SP_OPERAND_ROWS, .tensor = sparta_tensor_view(SPARTA_F32, 2, dim, rows)};
    return (sp_operand){.kind = SP_OPERAND_PANELS,
                        .tensor = sparta_tensor_view(SPARTA_F32, 2, dim, NULL),
                        .panel = p,
                        .gap = gap_of(features, stat),
                        .stat = p + gap_of(features, false)};
}

static sparta_status candidate_call(lowering *l, const lower_node *ln, bed *b, const sp_implement *im,
                                    const sp_packed *w, const lower_kernel *kernel, sp_call *out)
{
    const sp_node *node = ln->node;
    sp_job *j = &out->job;
    SP_TRY(sp_call_bind(l->cx, node, kernel->kernel, kernel->object, out));
    j->in[0] = operand(b, !sp_implement_panels(im) ? b->x_rows : NULL, b->x, ln->task.k, false);
    j->in[1] = (sp_operand){.kind = SP_OPERAND_PACKED, .tensor = *node->in[1]->constant, .packed = w};
    if (node->n_in > 2 && node->in[2])
        j->in[2] = (sp_operand){.kind = SP_OPERAND_ROWS, .tensor = *node->in[2]->constant};
    if (node->n_in > 3 && node->in[3])
        j->in[3] =
            operand(b, !sp_implement_panels(im) ? b->residual_rows : NULL, b->residual, ln->task.n, false);
    j->out[0] = operand(b, !sp_implement_panels(im) ? b->y_rows : NULL, b->y, ln->task.n, true);
    j->tokens = b->tokens;
    j->panels = sp_panels(b->tokens);
    j->stat = ln->task.stat && sp_implement_panels(im);
    SP_TRY(out->kernel->prepare(l->cx, b->arena, j));
    SP_TRY(out->kernel->check(l->cx, j));
    sp_free(l->cx, b->work);
    b->work = out->kernel->work ? sp_alloc(l->cx, out->kernel->work(j)) : NULL;
    return b->work || !out->kernel->work ? SPARTA_OK : sp_ctx_status(l->cx);
}

static bool agrees(const lower_node *ln, const bed *b, bool rows)
{
    const int64_t n = ln->task.n, gap = gap_of(n, true);
    double most = 0, worst = 0;
    for (int s = 0; s < b->samples; s++)
        for (int64_t i = 0, at = sample(b, s); i < n; i++) {
            const double r = b->reference[s * n + i];
            const double y =
                rows ? b->y_rows[s * n + i] : b->y[at / SP_PANEL * gap + i * SP_PANEL + at % SP_PANEL];
            if (isnan(r) && isnan(y)) continue;
            if (isinf(r) && r == y) continue;
            if (isfinite(r) && fabs(r) > most) most = fabs(r);
            if (!(fabs(r - y) <= worst)) worst = isnan(r - y) ? INFINITY : fabs(r - y);
        }
    return worst <= 1e-6 + 1e-4 * most;
}

/* What the row before has written must not pass for this one's. */
static void spoil(const lower_node *ln, const bed *b)
{
    const int64_t n = ln->task.n;
    memset(b->y, 0xff, (size_t)(gap_of(n, true) * sp_panels(b->tokens)) * sizeof *b->y); /* NaN */
    memset(b->y_rows, 0xff, (size_t)(b->samples * n) * sizeof *b->y_rows);
}

typedef struct timed {
    const sp_call *call;
    float *work;
} timed;
static void run_call(void *arg)
{
    sp_call_all(((timed *)arg)->call, ((timed *)arg)->work);
}

/* Build and check one row, and time it where `us` is given. */
static sparta_status try_candidate(lowering *l, const lower_node *ln, bed *b, const sp_implement *im,
                                   const lower_kernel *kernel, bool *right, double *us)
{
    sp_text text;
    sp_format format;
    sp_packed packed;
    sparta_tensor w;
    sp_text_init(&text, l->cx);
    im->format(&ln->task, &text);
    sparta_status s = text.status;
    if (s == SPARTA_OK) s = sp_format_parse(l->cx, sp_text_str(&text), &format);
    sp_text_free(&text);
    SP_TRY(s);
    sp_lower_weight(ln->node, &w);
    SP_TRY(sp_format_pack(l->cx, &format, &w, im->sparse ? ln->task.mask : NULL, &packed));
    sp_call call;
    s = b->x ? SPARTA_OK : bed_make(l, ln, b);
    if (s == SPARTA_OK) s = candidate_call(l, ln, b, im, &packed, kernel, &call);
    if (s == SPARTA_OK) {
        timed run = {&call, b->work};
        spoil(ln, b);
        run_call(&run);
        *right = agrees(ln, b, !sp_implement_panels(im));
        if (*right && us) {
            sp_timing t = {0};
            s = sp_time(l->cx, run_call, &run, im->sparse ? .015 : .06,
                        &t); /* dense is slower, and timed once a shape */
            *us = t.best * 1e6;
        }
        if (!*right)
            sp_note(l->cx, "%s: implement %s disagrees with the reference and is not used", ln->node->name,
                    im->name);
    }
    sp_packed_free(l->cx, &packed);
    return s;
}

/* ------------------------------------------------------------------ decisions */

/* The kernel that a row would run with; without an object it is the portable one. */
static sparta_status kernel_of(lowering *l, const lower_node *ln, const sp_implement *im,
                               const lower_kernel **out)
{
    sp_text text;
    int kernel = -1;
    sp_text_init(&text, l->cx);
    im->parameters(&ln->task, &text);
    sparta_status s =
        text.status == SPARTA_OK ? sp_lower_kernel(l, im->kernel, sp_text_str(&text), &kernel) : text.status;
    sp_text_free(&text);
    if (s == SPARTA_OK) *out = &l->kernel[kernel];
    return s;
}

enum { CONTENDERS = 32, HOPELESS = 3 }; /* so many times slower than the best: one turn is enough */
typedef struct contender {              /* a row with one of its settings */
    const sp_implement *im;
    int setting;
    double us;       /* 0: it gave a wrong answer */
    bool remembered; /* its time is, from a weight that looked like this one */
} contender;

/* What the row takes: remembered, or timed now. `again`: timed once more, the faster time counts. */
static sparta_status measure(lowering *l, const lower_node *ln, bed *b, contender *c, bool again)
{
    sp_text key;
    sp_trial trial;
    const lower_kernel *kernel = NULL;
    double us = 0;
    bool right;
    SP_TRY(kernel_of(l, ln, c->im, &kernel));
    sp_text_init(&key, l->cx);
    sp_lower_key(ln, c->im, kernel->object ? l->target : SP_TARGET_PORTABLE, &key);
    sparta_status s = key.status;
    c->remembered =
        s == SPARTA_OK && !again && sp_tune_find(l->db, sp_text_str(&key), &trial, 1) > 0 && trial.us > 0;
    if (c->remembered)
        us = trial.us;
    else if (s == SPARTA_OK)
        s = try_candidate(l, ln, b, c->im, kernel, &right, &us);
    if (s == SPARTA_OK && us > 0 && (!again || us < c->us)) c->us = us;
    if (s == SPARTA_OK && !c->remembered && us > 0) {
        trial = (sp_trial){.us = us, .threads = 1};
        snprintf(trial.implement, sizeof trial.implement, "%s", c->im->name);
        sp_tune_add(l->db, sp_text_str(&key), &trial);
    }
    sp_text_free(&key);
    return s;
}

/* Is this the pinned row, and its setting the one that stores the format asked for? */
static bool pinned(sparta_ctx *cx, const lower_node *ln, const sp_implement *im)
{
    if (im != ln->pin->implement) return false;
    if (!im->settings) return true;
    sp_text text;
    sp_text_init(&text, cx);
    im->format(&ln->task, &text);
    const bool same = !strcmp(sp_text_str(&text), ln->pin->format);
    sp_text_free(&text);
    return same;
}

/* A library may be missing where the package runs, and ours then takes its place: it must win by more than a little. */
static double weighed(const sp_implement *im, double us)
{
    return im->version ? us * 1.05 : us;
}

/* Rows come in the order of the table, simple ones and those that store less first. A later one must win by more than the noise of a
 * time: what is within it of the fastest is as fast, and so is the choice whenever it is made again. */
void sp_lower_try(sparta_ctx *cx, lower_node *ln, const sp_implement *im, double us)
{
    if (us <= 0) return;
    double *best = im->sparse ? &ln->sparse_us : &ln->dense_us;
    if (*best == 0 || us < *best) *best = us;
    if (im->sparse) ln->sparse = LOWER_TIMED;
    if (ln->pin && !pinned(cx, ln, im)) return;
    if (ln->im && weighed(ln->im, ln->us) <= weighed(im, us) * (1 + LOWER_NOISE)) return;
    ln->im = im;
    ln->us = us;
    ln->setting = ln->task.setting;
}

/* One row with the task's setting: what it takes, measured or modelled. */
static sparta_status try_row(lowering *l, lower_node *ln, bed *b, contender *c)
{
    if (c->im->sparse && ln->sparse == LOWER_NO_MATCH) ln->sparse = LOWER_WRONG;
    if (!l->no_measure) return measure(l, ln, b, c, false);
    c->us = sp_lower_modelled(&ln->task, c->im);
    return SPARTA_OK;
}

static sparta_status first_turn(lowering *l, lower_node *ln, bed *b, contender *all, int *n)
{
    for (int i = 0; i < sp_implement_count(); i++) {
        const sp_implement *im = sp_implement_row(i);
        for (int k = 0; k < sp_implement_settings(im) && *n < CONTENDERS; k++) {
            ln->task.setting = k;
            if (!im->kernel || !sp_implement_matches(im, &ln->task)) continue;
            if (im->sparse && l->request->options.dense_only) {
                ln->sparse = LOWER_FORBIDDEN;
                continue;
            }
            all[*n] = (contender){.im = im, .setting = k};
            SP_TRY(try_row(l, ln, b, &all[*n]));
            ++*n;
        }
    }
    return SPARTA_OK;
}

/* Those that were timed just now get another turn: a slow moment of the machine hits one turn, hardly two. */
static sparta_status second_turn(lowering *l, lower_node *ln, bed *b, contender *all, int n)
{
    double best = INFINITY;
    for (int i = 0; i < n; i++)
        if (all[i].us > 0) best = fmin(best, all[i].us);
    for (int i = 0; i < n; i++) {
        contender *c = &all[i];
        if (c->remembered || c->us <= 0 || c->us > best * HOPELESS) continue;
        ln->task.setting = c->setting;
        SP_TRY(measure(l, ln, b, c, true));
    }
    return SPARTA_OK;
}

/* The fastest of those that are not known to be wrong; NULL: none. */
static contender *pick(lowering *l, lower_node *ln, contender *all, int n)
{
    ln->im = NULL;
    ln->us = ln->sparse_us = ln->dense_us = 0;
    if (ln->sparse == LOWER_TIMED) ln->sparse = LOWER_WRONG;
    for (int i = 0; i < n; i++) {
        ln->task.setting = all[i].setting;
        sp_lower_try(l->cx, ln, all[i].im, all[i].us);
    }
    ln->task.setting = ln->setting;
    for (int i = 0; i < n; i++)
        if (ln->im == all[i].im && ln->setting == all[i].setting) return &all[i];
    return NULL;
}

/* A time may be remembered, the answer may not: it is this weight's own. So the choice is checked once where timing did not do it; a wrong
 * one is out, and the next takes its place. What was modelled is checked with the whole package, if that is. */
static sparta_status settle(lowering *l, lower_node *ln, bed *b, contender *all, int n)
{
    const bool unchecked = l->no_measure && l->request->no_verify;
    for (contender *c = pick(l, ln, all, n); c && (c->remembered || unchecked); c = pick(l, ln, all, n)) {
        const lower_kernel *kernel = NULL;
        bool right = false;
        SP_TRY(kernel_of(l, ln, c->im, &kernel));
        SP_TRY(try_candidate(l, ln, b, c->im, kernel, &right, NULL));
        if (right) break;
        c->us = 0;
    }
    return SPARTA_OK;
}

static sparta_status choose_linear(lowering *l, lower_node *ln)
{
    const bool model = l->no_measure;
    contender all[CONTENDERS];
    bed b = {0};
    int n = 0;
    bool all_remembered = true;
    sparta_status s = first_turn(l, ln, &b, all, &n);
    for (int i = 0; i < n; i++) all_remembered &= all[i].remembered;
    if (s == SPARTA_OK && !model) s = second_turn(l, ln, &b, all, n);
    ln->tried = n > 0;
    if (s == SPARTA_OK) s = settle(l, ln, &b, all, n);
    bed_free(l->cx, &b);
    snprintf(ln->source, sizeof ln->source, "%s", model ? "model" : all_remembered ? "database" : "measured");
    return s;
}

static sparta_status choose(lowering *l, lower_node *ln)
{
    SP_TRY(sp_lower_pin(l->cx, l->request->obeyed, ln->node, &ln->pin));
    SP_TRY(sp_lower_asked(l->cx, ln, l->request->options.limit));
    if (ln->task.mask) SP_TRY(choose_linear(l, ln));
    if (ln->pin && ln->im != ln->pin->implement) return sp_lower_pin_failed(l->cx, ln);
    for (int i = 0; i < sp_implement_count() && !ln->im; i++) {
        const sp_implement *im = sp_implement_row(i);
        if (im->format && ln->task.mask) continue; /* lost or failed above */
        if (sp_implement_matches(im, &ln->task)) ln->im = im;
    }
    sp_lower_reason(ln, l->peak);
    return SPARTA_OK;
}

bool *sp_lower_stats(sp_arena *arena, const sp_graph *g)
{
    bool *wanted = sp_arena_array(arena, (size_t)g->n_values + 1, sizeof *wanted);
    for (int i = 0; wanted && i < g->n_nodes; i++) {
        const sp_node *n = g->node[i];
        const sp_node *from = n->n_in && n->in[0] ? n->in[0]->producer : NULL;
        const sp_task t = {.node = n};
        if (from && from->op == SP_OP_Linear && from->out[0] == n->in[0] &&
            sp_implement_matches(&sp_implement_norm, &t))
            wanted[n->in[0]->id] = true;
    }
    return wanted;
}

sparta_status sp_lower_choose(lowering *l)
{
    const sp_graph *g = l->g;
    l->node = sp_arena_array(l->arena, (size_t)g->n_nodes + 1, sizeof *l->node);
    l->kernel = sp_arena_array(l->arena, LOWER_KERNELS, sizeof *l->kernel);
    const bool *stats = sp_lower_stats(l->arena, g);
    if (!l->node || !l->kernel || !stats) return sp_ctx_status(l->cx);
    l->n_nodes = g->n_nodes;
    if (!l->no_measure) l->peak = sp_peak_flops(l->target, 1, .02);
    for (int i = 0; i < g->n_nodes; i++) {
        lower_node *ln = &l->node[i];
        SP_TRY(sp_check_cancel(l->cx));
        ln->node = g->node[i];
        SP_TRY(sp_lower_task(l->cx, g, g->node[i], ln));
        ln->task.stat = stats[g->node[i]->out[0]->id];
        ln->task.library = sp_implement_library(l->target);
        SP_TRY(choose(l, ln));
        if (l->request->progress)
            l->request->progress(l->request->progress_arg, i + 1, g->n_nodes, g->node[i]->name);
    }
    return sp_lower_pins_used(l->cx, l->request->obeyed);
}
