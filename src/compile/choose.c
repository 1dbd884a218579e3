/* choose: which implements could run each node, and how fast: the fastest in rows and the fastest in panels. Candidates are built, checked against
 * the reference, timed and remembered; settle.c then takes one of the two. */
#include "compile/lower.h"
#include "run/run.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ tasks */

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
    int64_t tokens = 0;
    out->kernel = -1;
    if (n->n_in && n->in[0]) SP_TRY(sp_lower_most_tokens(cx, g, n->in[0], &tokens));
    return sp_implement_task(cx, n, tokens, &out->task);
}

void sp_lower_forget(sparta_ctx *cx, lower_node *ln)
{
    if (ln->packed) sp_packed_free(cx, ln->packed);
    ln->packed = NULL;
    sp_implement_task_free(cx, &ln->task);
}

sparta_status sp_lower_asked(sparta_ctx *cx, lower_node *ln, double limit)
{
    const sp_effect *pin = ln->pin;
    sparta_tensor w;
    sp_format format;
    sp_format_stats stats = {0};
    ln->task.asked = pin != NULL;
    if (!pin || pin->implement != &sp_implement_walk || !sp_implement_weight(ln->node, &w)) return SPARTA_OK;
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

sp_bed_request sp_lower_bed(const lower_node *ln, const sp_bindings *sizes)
{
    return (sp_bed_request){.task = &ln->task,
                            .tokens = ln->task.each ? sp_lower_tokens(&ln->task) : 0,
                            .sizes = sizes,
                            .seed = 7};
}

sparta_status sp_lower_kernel(lowering *l, const char *kernel, const char *parameters, int *out)
{
    for (int i = 0; i < l->n_kernels; i++)
        if (!strcmp(l->kernel[i].kernel, kernel) && !strcmp(l->kernel[i].parameters, parameters)) {
            *out = i;
            return SPARTA_OK;
        }
    if (l->n_kernels == l->room_kernels) {
        const int room = 2 * l->room_kernels + 16;
        lower_kernel *more = sp_arena_array(l->arena, (size_t)room, sizeof *more);
        SP_NEED(l->cx, more);
        if (l->n_kernels) memcpy(more, l->kernel, (size_t)l->n_kernels * sizeof *more);
        l->kernel = more;
        l->room_kernels = room;
    }
    sp_text text;
    sp_text_init(&text, l->cx);
    sparta_status s = sp_implement_text(kernel, parameters, l->target[SP_DEVICE_CPU], &text);
    lower_kernel k = {kernel, sp_arena_string(l->arena, parameters),
                      s == SPARTA_OK ? sp_arena_string(l->arena, sp_text_str(&text)) : NULL, NULL};
    if (s == SPARTA_OK && (!k.parameters || !k.source)) s = sp_ctx_status(l->cx);
    if (s == SPARTA_OK && l->target[SP_DEVICE_CPU] != SP_TARGET_PORTABLE) {
        sp_jit_rung rung;
        s = sp_jit_get(l->cx, l->target[SP_DEVICE_CPU], sp_text_str(&text), &k.object, &rung);
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

/* ------------------------------------------------------------------ contenders */

enum { HOPELESS = 3 }; /* times slower than the best: one turn is enough */

typedef struct entrant { /* a row at a point of its space */
    sp_contender c;
    char code[40];
    double us;       /* 0: it gave a wrong answer */
    bool remembered; /* its time is, from a weight that looked like this one */
} entrant;

typedef struct contest { /* who runs one node */
    lowering *l;
    lower_node *ln;
    sp_bed_request request;
    sp_bed *bed; /* made when somebody has to run */
    sp_recall recall;
    int n, room;
    entrant *all;
    int64_t held; /* bytes of weights of those that are built */
} contest;

static sparta_status add_entrant(contest *x, const sp_implement *im)
{
    if (x->n == x->room) {
        const int room = 2 * x->room + 8;
        entrant *more = sp_alloc_array(x->l->cx, (size_t)room, sizeof *more);
        SP_NEED(x->l->cx, more);
        if (x->n) memcpy(more, x->all, (size_t)x->n * sizeof *more);
        sp_free(x->l->cx, x->all);
        x->all = more;
        x->room = room;
    }
    entrant *e = &x->all[x->n++];
    *e = (entrant){.c = {.im = im}};
    memcpy(e->c.point, x->ln->task.point, sizeof e->c.point);
    return SPARTA_OK;
}

/* The machine code that a row would run with, into the contender; none: the portable kernel. */
static sparta_status find_code(contest *x, entrant *e)
{
    lowering *l = x->l;
    const sp_implement *im = e->c.im;
    sp_text text;
    int kernel = -1;
    sp_text_init(&text, l->cx);
    if (im->parameters) im->parameters(&x->ln->task, &text);
    sparta_status s = text.status;
    if (s == SPARTA_OK && im->kernel) s = sp_lower_kernel(l, im->kernel, sp_text_str(&text), &kernel);
    sp_text_free(&text);
    SP_TRY(s);
    if (kernel >= 0) e->c.object = l->kernel[kernel].object;
    return sp_recall_code(l->cx, &x->ln->task, im,
                          e->c.object ? l->target[SP_DEVICE_CPU] : SP_TARGET_PORTABLE, e->code);
}

/* Weights that were packed stay for the second turn and for the package, as long as they are not too large together. */
static void let_go(contest *x, entrant *e)
{
    if (!e->c.arena || x->held + e->c.bytes <= LOWER_KEEP) return;
    sp_bed_drop(x->bed, &e->c);
}

/* Is it right? Builds it if it is not built. */
static sparta_status check(contest *x, entrant *e)
{
    if (!x->bed) SP_TRY(sp_bed_create(x->l->cx, &x->request, &x->bed));
    SP_TRY(sp_bed_check(x->bed, &e->c));
    if (!e->c.found.ok)
        sp_note(x->l->cx, "%s: implement %s disagrees with the reference and is not used", x->ln->node->name,
                e->c.im->name);
    return SPARTA_OK;
}

/* The reference ran when the bed was made. */
static sparta_status measure_builtin(contest *x, entrant *e)
{
    if (!x->bed) SP_TRY(sp_bed_create(x->l->cx, &x->request, &x->bed));
    e->c.found.ok = true;
    e->c.best = sp_bed_builtin_seconds(x->bed);
    e->us = e->c.best * 1e6;
    return SPARTA_OK;
}

/* What the row takes: remembered, or timed now. */
static sparta_status measure(contest *x, entrant *e)
{
    SP_TRY(find_code(x, e));
    e->us = sp_recall_us(&x->recall, e->c.im, e->c.point, e->code);
    e->remembered = e->us > 0;
    if (e->remembered) return SPARTA_OK;
    if (!e->c.im->kernel) return measure_builtin(x, e);
    SP_TRY(check(x, e));
    if (e->c.found
            .ok) /* dense is slower, and timed once a shape; what is no product has little to choose from */
        SP_TRY(sp_bed_time(x->bed, &e->c, !x->ln->task.mask ? .003 : e->c.im->sparse ? .015 : .06));
    else
        sp_recall_add(&x->recall, &e->c, e->code);
    e->us = e->c.best * 1e6;
    let_go(x, e);
    if (e->c.arena) x->held += e->c.bytes;
    return SPARTA_OK;
}

/* One row at the task's point: what it takes, measured or modelled. */
static sparta_status enter(contest *x, const sp_implement *im)
{
    lower_node *ln = x->ln;
    SP_TRY(add_entrant(x, im));
    if (im->sparse && ln->sparse == LOWER_NO_MATCH) ln->sparse = LOWER_WRONG;
    entrant *e = &x->all[x->n - 1];
    if (!x->l->no_measure) return measure(x, e);
    e->us = sp_lower_modelled(&ln->task, im);
    return SPARTA_OK;
}

static sparta_status first_turn(contest *x)
{
    lower_node *ln = x->ln;
    for (int i = 0; i < sp_implement_count(); i++) {
        const sp_implement *im = sp_implement_row(i);
        for (int k = 0; k < sp_implement_points(im); k++) {
            if (!im->kernel && (ln->task.mask || ln->task.conversion)) continue; /* a last resort, or none */
            if (!sp_implement_point(im, k, &ln->task) || !sp_implement_matches(im, &ln->task)) continue;
            if (im->sparse && x->l->request->options.dense_only)
                ln->sparse = LOWER_FORBIDDEN;
            else
                SP_TRY(enter(x, im));
        }
    }
    return SPARTA_OK;
}

/* Those that were timed just now and may win race: a slow moment of the machine hits one turn, hardly two. */
static sparta_status second_turn(contest *x)
{
    double best = INFINITY;
    int n = 0;
    sp_contender **racers = sp_alloc_array(x->l->cx, (size_t)x->n + 1, sizeof *racers);
    SP_NEED(x->l->cx, racers);
    sparta_status s = SPARTA_OK;
    for (int i = 0; i < x->n; i++)
        if (x->all[i].us > 0) best = fmin(best, x->all[i].us);
    for (int i = 0; i < x->n && s == SPARTA_OK; i++) {
        entrant *e = &x->all[i];
        if (e->remembered || e->us <= 0 || e->us > best * HOPELESS) continue;
        if (!x->ln->task.mask) continue;
        if (e->c.arena) {
            racers[n++] = &e->c;
            continue;
        }
        s = sp_bed_time(x->bed, &e->c, .015); /* too large to stay with the others */
        sp_bed_drop(x->bed, &e->c);
    }
    if (s == SPARTA_OK && n) s = sp_bed_race(x->bed, racers, n, .015, 3);
    sp_free(x->l->cx, racers);
    for (int i = 0; i < x->n && s == SPARTA_OK; i++) {
        entrant *e = &x->all[i];
        if (e->remembered || e->us <= 0) continue;
        e->us = e->c.best * 1e6;
        sp_recall_add(&x->recall, &e->c, e->code);
    }
    return s;
}

/* ------------------------------------------------------------------ decisions */

/* Is this the pinned row, and its point the one that stores the format asked for? */
static bool pinned(sparta_ctx *cx, const lower_node *ln, const sp_implement *im)
{
    if (im != ln->pin->implement) return false;
    if (!im->space) return true;
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
    memcpy(ln->point, ln->task.point, sizeof ln->point);
}

enum { ANY = -1, ROWS, PANELS };
/* The fastest of those that lie so and are not known to be wrong; NULL: none. */
static entrant *pick(contest *x, int layout)
{
    lower_node *ln = x->ln;
    ln->im = NULL;
    ln->us = ln->sparse_us = ln->dense_us = 0;
    if (ln->sparse == LOWER_TIMED) ln->sparse = LOWER_WRONG;
    for (int i = 0; i < x->n; i++) {
        if (layout != ANY && layout != sp_implement_panels(x->all[i].c.im)) continue;
        memcpy(ln->task.point, x->all[i].c.point, sizeof ln->task.point);
        sp_lower_try(x->l->cx, ln, x->all[i].c.im, x->all[i].us);
    }
    memcpy(ln->task.point, ln->point, sizeof ln->task.point);
    for (int i = 0; i < x->n; i++)
        if (ln->im == x->all[i].c.im && !strcmp(ln->point, x->all[i].c.point)) return &x->all[i];
    return NULL;
}

/* A time may be remembered, the answer may not: it is this weight's own. So the choice is checked once where timing did not do it; a wrong
 * one is out, and the next takes its place. What was modelled is checked with the whole package, if that is. The weight of the one that is
 * chosen stays packed for the package. */
static sparta_status settle(contest *x)
{
    lowering *l = x->l;
    const bool unchecked = l->no_measure && l->request->no_verify;
    entrant *e;
    for (int layout = ROWS; layout <= PANELS; layout++) {
        for (e = pick(x, layout); e && (e->remembered || unchecked); e = pick(x, layout)) {
            if (!x->ln->task.mask)
                break; /* its answer does not depend on a weight: the package's check will do */
            SP_TRY(find_code(x, e));
            SP_TRY(check(x, e));
            if (e->c.found.ok) break;
            e->us = 0;
        }
        if (!e) continue;
        x->ln->way[layout] = (lower_way){.im = e->c.im, .us = e->us};
        memcpy(x->ln->way[layout].point, e->c.point, sizeof e->c.point);
    }
    e = pick(x, ANY);
    if (!e || !e->c.packed || l->kept + e->c.bytes > LOWER_KEEP) return SPARTA_OK;
    x->ln->packed = sp_arena_array(l->arena, 1, sizeof *x->ln->packed);
    SP_NEED(l->cx, x->ln->packed);
    *x->ln->packed = *e->c.packed;
    e->c.packed = NULL;
    l->kept += e->c.bytes;
    return SPARTA_OK;
}

static sparta_status hold_contest(lowering *l, lower_node *ln)
{
    const bool model = l->no_measure;
    contest x = {.l = l, .ln = ln, .request = sp_lower_bed(ln, &l->sizes)};
    bool all_remembered = true;
    sparta_status s =
        model ? SPARTA_OK : sp_recall_open(l->cx, l->db, &x.request, l->target[SP_DEVICE_CPU], &x.recall);
    if (s == SPARTA_OK) s = first_turn(&x);
    for (int i = 0; i < x.n; i++) all_remembered &= x.all[i].remembered;
    if (s == SPARTA_OK && !model) s = second_turn(&x);
    ln->tried = x.n > 0;
    if (s == SPARTA_OK) s = settle(&x);
    for (int i = 0; i < x.n; i++)
        if (x.all[i].c.arena) sp_bed_drop(x.bed, &x.all[i].c);
    sp_free(l->cx, x.all);
    sp_bed_free(x.bed);
    if (!model) sp_recall_close(&x.recall);
    snprintf(ln->source, sizeof ln->source, "%s", model ? "model" : all_remembered ? "database" : "measured");
    return s;
}

/* ------------------------------------------------------------------ what is no product */

/* Is there a choice, and can it be timed in a moment? */
static sparta_status worth_timing(const lowering *l, const lower_node *ln, bool *out)
{
    enum { ELEMENTS = 1 << 22, MOST_US = 50000 };
    const sp_bed_request bed = sp_lower_bed(ln, &l->sizes);
    double elements = 0;
    *out = false;
    if (l->no_measure || ln->node->n_out != 1 || ln->node->n_in > SP_OPERANDS) return SPARTA_OK;
    for (int i = -1; i < ln->node->n_in; i++) {
        const sp_value *v = i < 0 ? ln->node->out[0] : ln->node->in[i];
        int rank;
        int64_t dim[SPARTA_RANK];
        double n = 1;
        if (!v || v->constant) continue;
        const sparta_status s = sp_bed_shape(l->cx, &bed, v, &rank, dim);
        if (s == SPARTA_E_MEMORY || s == SPARTA_E_CANCELLED) return s;
        if (s != SPARTA_OK) { /* sizes are not known, or overflow */
            sp_ctx_clear(l->cx);
            return SPARTA_OK;
        }
        for (int d = 0; d < rank; d++) n *= (double)dim[d];
        if (n < 1) return SPARTA_OK;
        elements += n;
    }
    *out = elements <= ELEMENTS &&
           (ln->task.each || sp_compile_estimate_node(l->cx, ln->node, &l->sizes) <= MOST_US);
    return SPARTA_OK;
}

/* Nodes of one task take what the first of them took. */
static sparta_status choose_other(lowering *l, lower_node *ln)
{
    const sp_bed_request bed = sp_lower_bed(ln, &l->sizes);
    sp_text key;
    int64_t at = 0;
    bool worth;
    SP_TRY(worth_timing(l, ln, &worth));
    if (!worth) return SPARTA_OK;
    sp_text_init(&key, l->cx);
    sparta_status s = sp_recall_key(l->cx, &bed, l->target[SP_DEVICE_CPU], false, &key);
    if (s == SPARTA_OK && sp_map_get(l->alike, sp_text_str(&key), &at)) {
        memcpy(ln->way, l->node[at].way, sizeof ln->way);
    } else if (s == SPARTA_OK) {
        const char *kept = sp_arena_string(l->arena, sp_text_str(&key));
        s = kept ? hold_contest(l, ln) : sp_ctx_status(l->cx);
        if (s == SPARTA_OK) s = sp_map_put(l->alike, kept, ln - l->node);
    }
    sp_text_free(&key);
    ln->im = ln->way[PANELS].im; /* settle.c weighs both */
    ln->us = ln->way[PANELS].us;
    memcpy(ln->point, ln->way[PANELS].point, sizeof ln->point);
    ln->tried = false;
    ln->sparse_us = ln->dense_us = 0;
    ln->source[0] = 0;
    if (s == SPARTA_OK || s == SPARTA_E_MEMORY || s == SPARTA_E_CANCELLED) return s;
    sp_note(l->cx, "%s: it was not timed: %s", ln->node->name, sparta_message(l->cx));
    sp_ctx_clear(l->cx);
    return SPARTA_OK;
}

/* The fastest kernel of those that match, or the first where nothing is timed; NULL: none does. */
static const sp_implement *first_match(const lower_node *ln)
{
    for (int i = 0; i < sp_implement_count(); i++) {
        const sp_implement *im = sp_implement_row(i);
        if (im->format && ln->task.mask) continue; /* lost or failed before */
        if (sp_implement_matches(im, &ln->task)) return im;
    }
    return &sp_implement_builtin;
}

static sparta_status choose(lowering *l, lower_node *ln)
{
    SP_TRY(sp_lower_pin(l->cx, l->request->obeyed, ln->node, &ln->pin));
    SP_TRY(sp_lower_asked(l->cx, ln, l->request->options.limit));
    if (ln->task.mask && sp_implement_tokens(ln->node->in[0]))
        SP_TRY(hold_contest(l, ln));
    else if (first_match(ln)->kernel)
        SP_TRY(choose_other(l, ln));
    if (ln->pin && ln->im != ln->pin->implement) return sp_lower_pin_failed(l->cx, ln);
    if (!ln->im) ln->im = ln->way[ROWS].im ? ln->way[ROWS].im : first_match(ln);
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

/* ------------------------------------------------------------------ conversions */

/* What pack and unpack take for an element, by the bed: one value of 256 features. */
static sparta_status time_conversions(lowering *l)
{
    sp_graph *g;
    sp_value *x, *y = NULL;
    sp_node *n;
    sp_dims dims = {.rank = 2};
    SP_TRY(sp_graph_create(l->cx, "conversion", &g));
    dims.dim[0] = sp_expr_const(g->arena, LOWER_TOKENS);
    dims.dim[1] = sp_expr_const(g->arena, 256);
    sparta_status s =
        dims.dim[0] && dims.dim[1] ? sp_graph_add_input(g, "x", SPARTA_F32, &dims, &x) : sp_ctx_status(l->cx);
    if (s == SPARTA_OK)
        s = sp_graph_add_node(g, SP_OP_Identity, "conversion", 1, &x, 1, &y, &(sp_attrs){0}, &n);
    if (s == SPARTA_OK) {
        lower_node ln = {.node = n, .kernel = -1};
        y->dtype = SPARTA_F32;
        y->dims = x->dims;
        y->typed = true;
        s = sp_implement_task(l->cx, n, 0, &ln.task);
        ln.task.conversion = true;
        if (s == SPARTA_OK) s = hold_contest(l, &ln);
        for (int to = ROWS; to <= PANELS && s == SPARTA_OK; to++)
            l->convert_us[to] = ln.way[to].us / (LOWER_TOKENS * 256);
    }
    sp_graph_free(g);
    return s;
}

/* Is there a node that could lie in rows or in panels? */
static bool has_choice(const lowering *l)
{
    for (int i = 0; i < l->n_nodes; i++)
        if (l->node[i].way[ROWS].im && l->node[i].way[PANELS].im) return true;
    return false;
}

sparta_status sp_lower_choose(lowering *l)
{
    const sp_graph *g = l->g;
    l->node = sp_arena_array(l->arena, (size_t)g->n_nodes + 1, sizeof *l->node);
    const bool *stats = sp_lower_stats(l->arena, g);
    if (!l->node || !stats) return sp_ctx_status(l->cx);
    l->n_nodes = g->n_nodes;
    SP_TRY(sp_compile_usual_sizes(l->cx, l->arena, g, &l->sizes));
    l->alike = sp_map_create(l->cx);
    SP_NEED(l->cx, l->alike);
    if (!l->no_measure) l->peak = sp_peak_flops(l->target[SP_DEVICE_CPU], 1, .02);
    for (int i = 0; i < g->n_nodes; i++) {
        lower_node *ln = &l->node[i];
        SP_TRY(sp_check_cancel(l->cx));
        ln->node = g->node[i];
        SP_TRY(sp_lower_task(l->cx, g, g->node[i], ln));
        ln->task.stat = stats[g->node[i]->out[0]->id];
        ln->task.library = sp_implement_library(l->target[SP_DEVICE_CPU]);
        SP_TRY(choose(l, ln));
        if (l->request->options.progress)
            l->request->options.progress(l->request->options.progress_user, i + 1, g->n_nodes,
                                         g->node[i]->name);
    }
    if (!l->no_measure && has_choice(l)) SP_TRY(time_conversions(l));
    return sp_lower_pins_used(l->cx, l->request->obeyed);
}
