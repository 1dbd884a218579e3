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
 * what is left. */
#include "measure/product_time.h"
#include "prune/prune.h"
#include "tune/tune.h"
#include <math.h>
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
    sp_product_timer timer;
    const char *pattern;
    int64_t n, k, tokens;
    bool measured; /* something was, just now */
    point loses, wins;
} search;

static sparta_status look(search *s, double sparsity, point *out)
{
    sp_product_time t = {
        .n = s->n, .k = s->k, .tokens = s->tokens, .pattern = s->pattern, .sparsity = sparsity};
    SP_TRY(sp_product_time_find(s->cx, &s->timer, &t));
    s->measured |= t.measured;
    *out = (point){.sparsity = sparsity, .ratio = t.us / t.dense_us, .known = true};
    memcpy(out->implement, t.implement, sizeof out->implement);
    return SPARTA_OK;
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
    search s = {.cx = cx, .pattern = pattern, .n = out->n, .k = out->k};
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
    SP_TRY(sp_product_timer_open(cx, db, target, &s.timer));
    sparta_status status = find(&s);
    sp_tune_close(s.timer.db);
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
