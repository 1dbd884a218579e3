/* break-even: the sparsity from which on a pattern is faster than dense, for one shape of weight.
 *
 *     time of the best sparse row
 *      |  \
 *      |     \                        what is measured (a weight of random numbers, pruned by its magnitude):
 *      |--------x--------- dense        1. at 0.4
 *      |      lo   hi \                 2. where the time would be dense's if it were proportional to what is left,
 *      |                 \                 a little further, so that the two enclose the crossing
 *      +---------------------> sparsity 3. between the two, when they are far apart
 *
 * The answer lies on the line between the nearest sparsity that loses and the nearest that wins: times are nearly linear in
 * what is left. Sparse and dense are timed in turns; both times are remembered under the shape, pattern and sparsity. */
#include "measure/measure.h"
#include "implement/implement.h"
#include "prune/prune.h"
#include "tune/tune.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TOKENS = 128, POINTS = 4 };                       /* when nobody says how many */
static const double least = .02, most = .98, near = .15; /* sparsities; how close the two ends must be */

typedef struct point {
    double sparsity, ratio; /* time sparse / time dense: below 1 it wins */
    char implement[48];
    bool known; /* there is such a point */
} point;

typedef struct search {
    sparta_ctx *cx;
    sp_tune_db *db;
    const char *pattern, *target;
    int64_t n, k, tokens;
    uint64_t code; /* digest of the kernels' texts */
    bool measured; /* something was, just now */
    point loses, wins;
} search;

/* ------------------------------------------------------------------ one measurement, or what is remembered of it */

sparta_status sp_break_even_code(sparta_ctx *cx, uint64_t *out)
{
    sp_text text;
    sp_text_init(&text, cx);
    sparta_status s = SPARTA_OK;
    for (int i = 0; i < sp_implement_count() && !s; i++) {
        const char *kernel = sp_implement_row(i)->kernel;
        if (kernel && sp_panel_multiplies(sp_panel_find(kernel))) s = sp_panel_text(kernel, &text);
    }
    if (!s) s = text.status;
    *out = s ? 0 : sp_hash(sp_text_str(&text), text.size, 0);
    sp_text_free(&text);
    return s;
}

static void key_of(const search *s, double sparsity, sp_text *out)
{
    const char *library = sp_implement_onednn.version();
    sp_text_printf(out,
                   "break-even n=%ld k=%ld pattern=%s sparsity=%.2f tokens=%ld target=%s library=%s "
                   "cpu=%016lx code=%016lx sparta=%s",
                   (long)s->n, (long)s->k, s->pattern, sparsity, (long)s->tokens,
                   s->target ? s->target : sp_target_name(sp_target_best(SP_DEVICE_CPU)),
                   library ? library : "none", (unsigned long)sp_cpu_digest(), (unsigned long)s->code,
                   SPARTA_VERSION);
}

/* A sparse time and a dense one under the same key. */
static bool recall(const search *s, const char *key, point *out)
{
    sp_trial t[8];
    double sparse = 0, dense = 0;
    int n = sp_tune_find(s->db, key, t, (int)SP_COUNT(t));
    for (int i = 0; i < SP_MIN(n, (int)SP_COUNT(t)); i++) {
        const sp_implement *im = sp_implement_find(t[i].implement);
        double *best = im && im->sparse ? &sparse : &dense;
        if (!im || *best > 0) continue;
        *best = t[i].us;
        if (im->sparse) snprintf(out->implement, sizeof out->implement, "%s", im->name);
    }
    out->ratio = dense > 0 ? sparse / dense : 0;
    return out->ratio > 0;
}

static void keep(const search *s, const char *key, const char *implement, double us)
{
    sp_trial t = {.us = us, .threads = 1};
    snprintf(t.implement, sizeof t.implement, "%s", implement);
    sp_tune_add(s->db, key, &t);
}

/* E_UNSUPPORTED when no sparse row takes it. */
static sparta_status measure(search *s, const char *key, point *p)
{
    sp_kernel_result r;
    const sp_kernel_request q = {.m = s->tokens,
                                 .n = s->n,
                                 .k = s->k,
                                 .pattern = s->pattern,
                                 .sparsity = p->sparsity,
                                 .threads = 1,
                                 .target = s->target,
                                 .seconds = .01,
                                 .quick = true};
    SP_TRY(sp_kernel_bench(s->cx, &q, &r));
    const sp_implement *im = sp_implement_find(r.implement);
    if (!im || !im->sparse || !(r.dense_best_us > 0))
        return sp_fail(s->cx, SPARTA_E_UNSUPPORTED, "break-even: no sparse implement takes it");
    s->measured = true;
    p->ratio = r.best_us / r.dense_best_us;
    snprintf(p->implement, sizeof p->implement, "%s", r.implement);
    keep(s, key, r.implement, r.best_us);
    keep(s, key, r.dense_name, r.dense_best_us);
    return SPARTA_OK;
}

static sparta_status look(search *s, double sparsity, point *out)
{
    sp_text key;
    point p = {.sparsity = sparsity, .known = true};
    sp_text_init(&key, s->cx);
    key_of(s, sparsity, &key);
    sparta_status status = key.status;
    if (!status && !recall(s, sp_text_str(&key), &p)) status = measure(s, sp_text_str(&key), &p);
    sp_text_free(&key);
    if (!status) *out = p;
    return status;
}

/* ------------------------------------------------------------------ the search */

static double between(const point *a, const point *b)
{
    return a->sparsity + (a->ratio - 1) / (a->ratio - b->ratio) * (b->sparsity - a->sparsity);
}

/* Two decimals, so that the next search asks for the same ones. */
static double next(const search *s)
{
    double x = .4;
    if (s->loses.known && s->wins.known)
        x = between(&s->loses, &s->wins);
    else if (s->loses.known)
        x = 1 - (1 - s->loses.sparsity) / s->loses.ratio / 1.1;
    else if (s->wins.known)
        x = 1 - (1 - s->wins.sparsity) / s->wins.ratio * 1.1;
    return round(SP_MAX(least, SP_MIN(x, most)) * 100) / 100;
}

/* Of points on one side the one nearest to the crossing counts. Noise may put a loser above a winner: then the later one
 * stands. */
static void place(search *s, const point *p)
{
    point *side = p->ratio > 1 ? &s->loses : &s->wins;
    const bool nearer =
        !side->known || (p->ratio > 1 ? p->sparsity > side->sparsity : p->sparsity < side->sparsity);
    if (nearer) *side = *p;
    if (s->loses.known && s->wins.known && s->loses.sparsity >= s->wins.sparsity)
        (p->ratio > 1 ? &s->wins : &s->loses)->known = false;
}

static sparta_status find(search *s)
{
    for (int i = 0; i < POINTS; i++) {
        const double x = next(s);
        point p;
        if (s->loses.known && s->wins.known && s->wins.sparsity - s->loses.sparsity <= near) break;
        if ((s->loses.known && x == s->loses.sparsity) || (s->wins.known && x == s->wins.sparsity)) break;
        SP_TRY(sp_check_cancel(s->cx));
        SP_TRY(look(s, x, &p));
        place(s, &p);
    }
    return SPARTA_OK;
}

static void tell(const search *s, sp_arena *arena, sp_break_even *out)
{
    const point *p = s->wins.known ? &s->wins : &s->loses;
    const char *name = sp_arena_string(arena, p->implement);
    out->source = s->measured ? "measured" : "database";
    out->implement = name ? name : "";
    out->note = "";
    out->sparsity = s->loses.known && s->wins.known ? between(&s->loses, &s->wins) : NAN;
    if (!s->loses.known) {
        out->sparsity = s->wins.sparsity;
        out->note = "faster at the least sparsity that was tried";
    } else if (!s->wins.known) {
        const char *note = sp_arena_printf(
            arena, "dense is faster at every sparsity that was tried, up to %.2f", s->loses.sparsity);
        out->note = note ? note : "";
    }
}

sparta_status sp_break_even_find(sparta_ctx *cx, sp_arena *arena, const char *db, const char *pattern,
                                 const char *target, sp_break_even *out)
{
    search s = {.cx = cx, .pattern = pattern, .target = target, .n = out->n, .k = out->k};
    s.tokens = out->tokens ? out->tokens : TOKENS;
    sp_prune_spec spec;
    SP_TRY(sp_prune_parse_pattern(cx, pattern, &spec));
    sp_break_even answer = {
        .n = s.n, .k = s.k, .tokens = s.tokens, .sparsity = NAN, .source = "measured", .implement = ""};
    if (spec.of) {
        answer.note = "n:m says its sparsity itself";
        *out = answer;
        return SPARTA_OK;
    }
    SP_TRY(sp_break_even_code(cx, &s.code));
    SP_TRY(sp_tune_open(cx, db, &s.db));
    sparta_status status = find(&s);
    sp_tune_close(s.db);
    if (status == SPARTA_E_UNSUPPORTED) {
        sp_ctx_clear(cx); /* it is an answer */
        answer.note = "no sparse implement takes it";
    } else if (status)
        return status;
    else
        tell(&s, arena, &answer);
    *out = answer;
    return SPARTA_OK;
}
