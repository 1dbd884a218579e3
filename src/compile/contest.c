/* contest: who runs one node. Every row that matches enters at every point of its space: it is built, checked against the reference,
 * timed and remembered; the fastest of each layout stays. Kernels of all contests are compiled before the first begins, side by side; each is
 * then timed alone. */
#include "compile/lower.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    HOPELESS = 3,    /* times slower than the best: one turn is enough */
    IMPLAUSIBLE = 8, /* times slower than the best of the bed, or than half of the peak: timed again */
    TWICE = 2        /* a time that was found so often is one */
};

typedef struct entrant { /* a row at a point of its space */
    sp_contender c;
    char code[40];
    double us;       /* 0: it gave a wrong answer */
    bool remembered; /* its time is, from a weight that looked like this one */
    int measured;    /* how often, when it is */
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
    int kernel;
    SP_TRY(sp_lower_want(l, im, &x->ln->task, &kernel));
    if (kernel >= 0 && !l->kernel[kernel].built) SP_TRY(sp_lower_build(l));
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

/* One that is out has its name in a note. */
static void tell(contest *x, const entrant *e)
{
    x->ln->pin_wrong |= x->ln->pin && sp_lower_meets(x->ln->pin, e->c.im);
    const char *user = sp_implement_user_name(e->c.im, &x->ln->task);
    sp_note(x->l->cx, "%s: %s %s %s%s and is not used", x->ln->node->name, user ? "kernel" : "implement",
            user ? user : e->c.im->name, e->c.outside ? "writes outside of " : "disagrees with the reference",
            e->c.outside ? e->c.outside : "");
}

/* Is it right? Builds it if it is not built. */
static sparta_status check(contest *x, entrant *e)
{
    if (!x->bed) SP_TRY(sp_bed_create(x->l->cx, &x->request, &x->bed));
    SP_TRY(sp_bed_check(x->bed, &e->c));
    if (!e->c.found.ok) tell(x, e);
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

static bool generated(const sp_implement *im)
{
    return im->kernel && (sp_panel_find(im->kernel)->generated || sp_panel_find(im->kernel)->otherwise);
}

static double best_us(const contest *x)
{
    double best = INFINITY;
    for (int i = 0; i < x->n; i++)
        if (x->all[i].us > 0) best = fmin(best, x->all[i].us);
    return best;
}

/* What is no product has little to choose from. Dense is slower, and timed once a shape: it gets more time, where it has a chance at all. */
static sparta_status take_time(const contest *x, sp_contender *c)
{
    SP_TRY(sp_bed_time(x->bed, c, x->ln->task.mask ? .015 : .003));
    if (!x->ln->task.mask || c->im->sparse || c->best * 1e6 > best_us(x) * HOPELESS) return SPARTA_OK;
    return sp_bed_time(x->bed, c, .045);
}

/* After it was timed: who leaves its operands only now, on another input, is out as well. */
static void settle_time(contest *x, entrant *e)
{
    e->us = e->c.outside ? 0 : e->c.best * 1e6;
    if (!e->c.outside) return;
    tell(x, e);
    sp_recall_add(&x->recall, &e->c, e->code);
}

static sparta_status time_now(contest *x, entrant *e)
{
    if (!e->c.im->kernel) return measure_builtin(x, e);
    if (generated(e->c.im) && !e->c.object) return SPARTA_OK; /* no code, and nothing else */
    SP_TRY(check(x, e));
    e->us = 0; /* what was remembered of it is not believed */
    if (e->c.found.ok) {
        SP_TRY(take_time(x, &e->c));
        settle_time(x, e);
    } else
        sp_recall_add(&x->recall, &e->c, e->code);
    let_go(x, e);
    if (e->c.arena) x->held += e->c.bytes;
    return SPARTA_OK;
}

/* What the row takes: remembered, or timed now. */
static sparta_status measure(contest *x, entrant *e)
{
    SP_TRY(find_code(x, e));
    e->us = sp_recall_us(&x->recall, e->c.im, e->c.point, e->code, &e->measured);
    e->remembered = e->us > 0;
    return e->remembered ? SPARTA_OK : time_now(x, e);
}

/* Its cost model's time over which the entrant was slower; 0: it has no model, or no time. */
static double pace(const contest *x, const entrant *e)
{
    sp_task t = x->ln->task;
    if (!e->c.im->cost || e->us <= 0) return 0;
    memcpy(t.point, e->c.point, sizeof t.point);
    return e->us / fmax(sp_lower_modelled(&t, e->c.im), 1e-3);
}

/* A time that is far from what the model says, where others on the same bed are not, or the machine computes faster: it is taken again. One that
 * was remembered is not believed, unless it was found twice. */
static sparta_status doubt(contest *x)
{
    const double model = 1e11;                                 /* operations a second: sp_lower_modelled */
    double best = x->l->peak > 0 ? 2 * model / x->l->peak : 2; /* nobody is surprised by half of the peak */
    for (int i = 0; i < x->n; i++)
        if (pace(x, &x->all[i]) > 0) best = fmin(best, pace(x, &x->all[i]));
    for (int i = 0; i < x->n; i++) {
        entrant *e = &x->all[i];
        if (pace(x, e) <= IMPLAUSIBLE * best || (e->remembered && e->measured >= TWICE)) continue;
        memcpy(x->ln->task.point, e->c.point, sizeof e->c.point);
        if (e->remembered)
            SP_TRY(time_now(x, e));
        else {
            SP_TRY(sp_bed_time(x->bed, &e->c, .015));
            e->c.measured = TWICE;
            settle_time(x, e);
            let_go(x, e);
        }
        e->remembered = false;
    }
    return SPARTA_OK;
}

/* What was written by hand needs no rival that is generated. */
static bool has_rival(const contest *x, const sp_implement *im)
{
    for (int i = 0; i < x->n && sp_implement_generates(im); i++)
        if (sp_implement_layout(x->all[i].c.im) == sp_implement_layout(im)) return true;
    return false;
}

/* Who competes: rows at points of their spaces. */
static sparta_status gather(contest *x)
{
    lower_node *ln = x->ln;
    for (int i = 0; i < sp_implement_count(); i++) {
        const sp_implement *im = sp_implement_row(i);
        for (int k = 0; k < sp_implement_points(im); k++) {
            if (!im->kernel && (ln->task.mask || ln->task.conversion)) continue; /* a last resort, or none */
            if (!sp_implement_point(im, k, &ln->task) || !sp_implement_matches(im, &ln->task)) continue;
            if (has_rival(x, im)) continue;
            if (im->sparse && x->l->request->options.dense_only &&
                !sp_attr_find(&ln->node->attrs, "diagonal")) {
                ln->sparse = LOWER_FORBIDDEN;
                continue;
            }
            SP_TRY(add_entrant(x, im));
            if (im->sparse && ln->sparse == LOWER_NO_MATCH) ln->sparse = LOWER_WRONG;
        }
    }
    return SPARTA_OK;
}

/* Their kernels. */
static sparta_status want_all(contest *x)
{
    for (int i = 0; i < x->n; i++) {
        int kernel;
        memcpy(x->ln->task.point, x->all[i].c.point, sizeof x->ln->task.point);
        SP_TRY(sp_lower_want(x->l, x->all[i].c.im, &x->ln->task, &kernel));
    }
    return SPARTA_OK;
}

/* What each takes, measured or modelled. */
static sparta_status first_turn(contest *x)
{
    for (int i = 0; i < x->n; i++) {
        entrant *e = &x->all[i];
        memcpy(x->ln->task.point, e->c.point, sizeof e->c.point);
        if (x->l->no_measure)
            e->us = sp_lower_modelled(&x->ln->task, e->c.im);
        else
            SP_TRY(measure(x, e));
    }
    return x->l->no_measure || !x->ln->task.mask ? SPARTA_OK : doubt(x);
}

/* A time of a quiet machine is no rival of those that are taken beside others: who may win by it is timed anew. What was remembered stays in the
 * database, where a disturbed time takes no quiet one's place. */
static sparta_status call_back(contest *x)
{
    for (int i = 0; i < x->n; i++) {
        entrant *e = &x->all[i];
        if (!e->remembered || e->us > best_us(x) * HOPELESS) continue;
        memcpy(x->ln->task.point, e->c.point, sizeof e->c.point);
        SP_TRY(time_now(x, e));
        e->remembered = false;
        i = -1; /* the best may take longer now, and others may win by it */
    }
    return SPARTA_OK;
}

/* Those that were timed just now and may win race: a slow moment of the machine hits one turn, hardly two. */
static sparta_status second_turn(contest *x)
{
    if (x->bed && sp_bed_disturbed(x->bed)) SP_TRY(call_back(x));
    const double best = best_us(x);
    int n = 0;
    sp_contender **racers = sp_alloc_array(x->l->cx, (size_t)x->n + 1, sizeof *racers);
    SP_NEED(x->l->cx, racers);
    sparta_status s = SPARTA_OK;
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
    /* Beside others quiet moments are rare: more windows find more of them. */
    if (s == SPARTA_OK && n && sp_bed_disturbed(x->bed)) s = sp_bed_race(x->bed, racers, n, .045, 9);
    const bool disturbed = x->bed && sp_bed_disturbed(x->bed);
    x->l->disturbed |= disturbed;
    sp_free(x->l->cx, racers);
    for (int i = 0; i < x->n && s == SPARTA_OK; i++) {
        entrant *e = &x->all[i];
        if (e->remembered || e->us <= 0) continue;
        e->us = e->c.outside ? 0 : e->c.best * 1e6;
        if (e->c.outside) tell(x, e);
        e->c.disturbed = disturbed;
        sp_recall_add(&x->recall, &e->c, e->code);
    }
    return s;
}

/* ------------------------------------------------------------------ decisions */

/* Is this the pinned row, and its point one that was asked for, by name or by the format that it stores? */
static bool pinned(sparta_ctx *cx, const lower_node *ln, const sp_implement *im)
{
    if (!sp_lower_meets(ln->pin, im)) return false;
    if (!im->space || !ln->pin->format) return sp_point_has(ln->task.point, ln->pin->point);
    sp_text text;
    sp_text_init(&text, cx);
    sp_implement_print_format(im, &ln->task, &text);
    const bool same = !strcmp(sp_text_str(&text), ln->pin->format);
    sp_text_free(&text);
    return same;
}

/* A library may be missing where the package runs, and ours then takes its place: it must win by more than a little. */
static double weighed(const sp_implement *im, double us)
{
    return im->version ? us * 1.05 : us;
}

/* Whether a row takes the place of one that came before it. Sparse against dense, the order does not matter: sparse must win by LOWER_SPARSE, or a
 * difference that is none would make a layer sparse that gains nothing by it. */
static bool beats(const sp_implement *im, double us, const sp_implement *held, double held_us)
{
    us = weighed(im, us), held_us = weighed(held, held_us);
    if (im->sparse == held->sparse) return us * (1 + LOWER_NOISE) < held_us;
    return im->sparse ? us <= LOWER_SPARSE * held_us : held_us > LOWER_SPARSE * us;
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
    if (ln->im && !beats(im, us, ln->im, ln->us)) return;
    ln->im = im;
    ln->us = us;
    memcpy(ln->point, ln->task.point, sizeof ln->point);
}

enum { ANY = -1 };
/* The fastest of those that lie so and are not known to be wrong; NULL: none. */
static entrant *pick(contest *x, int layout)
{
    lower_node *ln = x->ln;
    ln->im = NULL;
    ln->us = ln->sparse_us = ln->dense_us = 0;
    if (ln->sparse == LOWER_TIMED) ln->sparse = LOWER_WRONG;
    for (int i = 0; i < x->n; i++) {
        if (layout != ANY && layout != (int)sp_implement_layout(x->all[i].c.im)) continue;
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
    for (int layout = 0; layout < SP_LAYOUTS; layout++) {
        for (e = pick(x, layout); e && (e->remembered || unchecked); e = pick(x, layout)) {
            /* an answer that depends on no weight: the package's check will do */
            if (!x->ln->task.mask) break;
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

sparta_status sp_lower_enlist(lowering *l, const lower_node *ln)
{
    lower_node copy = *ln; /* what is noted of the node is of the contest */
    contest x = {.l = l, .ln = &copy};
    sparta_status s = gather(&x);
    if (s == SPARTA_OK) s = want_all(&x);
    sp_free(l->cx, x.all);
    return s;
}

sparta_status sp_lower_contest(lowering *l, lower_node *ln)
{
    const bool model = l->no_measure;
    contest x = {.l = l, .ln = ln, .request = sp_lower_bed(ln, &l->sizes)};
    bool all_remembered = true;
    sparta_status s =
        model ? SPARTA_OK : sp_recall_open(l->cx, l->db, &x.request, l->target[SP_DEVICE_CPU], &x.recall);
    x.recall.since = l->since;
    x.recall.anew = l->request->options.remeasure;
    if (s == SPARTA_OK) s = gather(&x);
    if (s == SPARTA_OK && !model) s = want_all(&x);
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
