/* Primitives: each is checked when it is applied, and changes the loops of one nest. The default of a nest is a text of them, applied as any other. */
#include "special/inside.h"
#include "special/tile.h"
#include <stdio.h>
#include <string.h>

enum {
    MOST_ARGUMENTS = 24,
    NAME = sizeof(((sp_special_loop *)0)->name),
    MOST_PRIMITIVES = 64,
    MOST_UNROLL = 16,
    MOST_COPIES = 64
};

#define MOST_STEP                                                                                            \
    ((int64_t)1 << 40) /* values of an index in one step of a loop: as many as an index has at most */

typedef struct step {
    char name[NAME];
    int n;
    char arg[MOST_ARGUMENTS][NAME];
    char text[80]; /* for messages */
} step;

typedef struct work {
    sp_special *s;
    sp_special_nest *n;
    const step *step;
} work;

#define REFUSE(w, ...) return refuse(w, __VA_ARGS__)
static sparta_status refuse(const work *w, const char *format, ...) SP_PRINTF(2, 3);
static sparta_status refuse(const work *w, const char *format, ...)
{
    char why[400];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return sp_fail(w->s->cx, SPARTA_E_USAGE, "schedule: %s: %s", w->step->text, why);
}

static const char *names(const sp_special_nest *n, char out[320])
{
    size_t used = 0;
    *out = 0;
    for (int i = 0; i < n->loops && used < 300; i++)
        used += (size_t)snprintf(out + used, 320 - used, "%s%s", i ? ", " : "", n->loop[i].name);
    return out;
}

static sparta_status check_order(const work *w);
static sparta_status find_loop(const work *w, const char *name, int *out)
{
    char all[320];
    for (int i = 0; i < w->n->loops; i++)
        if (!strcmp(w->n->loop[i].name, name)) {
            *out = i;
            return SPARTA_OK;
        }
    REFUSE(w, "there is no loop '%s'; loops are %s", name, names(w->n, all));
}

/* ------------------------------------------------------------------ sums apart */
/* Can what loop `at` and those inside of it sum be multiplied by the other factors afterwards? */
static const char *apart_refused(const sp_special *s, const sp_special_nest *n, int at)
{
    int node[SP_SPECIAL_NODES];
    if (s->statement[n->statement].reduce != SP_NEST_sum) return "the statement takes no sum";
    for (int i = at; i < n->loops; i++)
        if (n->loop[i].gather) return "positions are lanes, which are summed as they are";
    for (int i = 0; i < at; i++)
        if (n->loop[i].bind == SP_BIND_UNROLL) return "it is inside of a loop that is unrolled";
    if (at < sp_special_sums(s, n)) return "not everything inside of it is summed or unrolled";
    if (!sp_special_factors(s, n, at, true, node)) return "no factor of the term is known outside of it";
    if (!sp_special_factors(s, n, at, false, node)) return "all factors of the term are known outside of it";
    return NULL;
}

static sparta_status apply_precompute(work *w)
{
    int at;
    SP_TRY(find_loop(w, w->step->arg[0], &at));
    const char *refused = apart_refused(w->s, w->n, at);
    for (int i = 0; i < w->n->loops && !refused; i++)
        if (w->n->loop[i].apart) refused = "another sum is computed first already";
    if (refused) REFUSE(w, "%s", refused);
    w->n->loop[at].apart = true;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ ranges */
int sp_special_counter(const sp_special_nest *n, int segment)
{
    for (int i = 0; i < n->loops && n->loop[segment].range; i++)
        if (n->loop[i].digit.index == SP_SPECIAL_RANGES && !strcmp(n->loop[i].name, n->loop[segment].with))
            return i;
    return -1;
}
int sp_special_counted(const sp_special_nest *n, int counter)
{
    for (int i = 0; i < n->loops; i++)
        if (n->loop[i].range && sp_special_counter(n, i) == counter) return i;
    return -1;
}
static bool counts_ranges(const sp_special_loop *l)
{
    return l->digit.index == SP_SPECIAL_RANGES;
}

/* ------------------------------------------------------------------ tiles */
static const char *vector_refused(const sp_special *s, const sp_special_nest *n, int at, char why[160]);
static bool on_diagonal(const sp_special *s, const sp_special_nest *n, int index);

/* Tiles that begin inside of loop `at` have a size, and lanes that need one lie inside of it. */
static sparta_status check_tiles(const work *w, int at)
{
    const sp_special_loop *l = &w->n->loop[at];
    sp_special_tile t;
    char why[160];
    for (int u = 0; u < w->n->uses; u++) {
        const char *refused = l->caches >> u & 1 ? sp_special_tile_of(w->s, w->n, at, u, &t, why) : NULL;
        if (refused)
            REFUSE(w, "%s would be cached in %s, and %s", w->s->operand[w->n->use[u].operand].name, l->name,
                   refused);
        if (l->bind != SP_BIND_VECTOR ||
            (sp_special_cached(w->n, u) < 0 && !on_diagonal(w->s, w->n, l->digit.index)))
            continue;
        refused = vector_refused(w->s, w->n, at, why);
        if (refused) REFUSE(w, "%s would be in vectors, and %s", l->name, refused);
    }
    return SPARTA_OK;
}

static bool has_scratch(const sp_special_nest *n)
{
    for (int i = 0; i < n->loops; i++)
        if (n->loop[i].lent) return true;
    return false;
}

static sparta_status apply_cache(work *w)
{
    const char *name = w->step->arg[0];
    unsigned uses = 0;
    int at;
    SP_TRY(find_loop(w, w->step->arg[1], &at));
    sp_special_loop *l = &w->n->loop[at], old = *l;
    const bool scratch = w->step->n > 2;
    if (scratch && strcmp(w->step->arg[2], "scratch"))
        REFUSE(w, "'%s' is not known; say cache(%s,%s) or cache(%s,%s,scratch)", w->step->arg[2], name,
               l->name, name, l->name);
    for (int u = 0; u < w->n->uses - 1; u++) {
        sp_special_tile t;
        char why[160];
        if (strcmp(w->s->operand[w->n->use[u].operand].name, name)) continue;
        const char *refused = sp_special_cached(w->n, u) >= 0 ? "it has a tile already"
                              : scratch && has_scratch(w->n)  ? "another tile lies in scratch already"
                                                              : NULL;
        if (!refused) {
            if (scratch) l->lent |= 1u << u;
            refused = sp_special_tile_of(w->s, w->n, at, u, &t, why);
        }
        if (refused) {
            *l = old;
            REFUSE(w, "%s", refused);
        }
        uses |= 1u << u;
    }
    if (!uses) REFUSE(w, "the nest reads no operand '%s'", name);
    if (l->bind == SP_BIND_UNROLL || l->over == SP_OVER_MERGE) {
        *l = old;
        REFUSE(w, "%s is unrolled, or a search", l->name);
    }
    l->caches |= uses;
    const sparta_status status = check_order(w);
    if (status) *l = old;
    return status;
}

/* ------------------------------------------------------------------ orders */
/* What is cut lies inside of the pieces, and of two loops that are cut together the inner in the outer. Pieces of pieces have any order. */
static sparta_status check_pieces(const work *w, int at)
{
    const sp_special_nest *n = w->n;
    const sp_special_loop *p = &n->loop[at];
    int outer = -1;
    for (int k = 0; k < n->loops; k++) {
        const sp_special_loop *l = &n->loop[k];
        if (!sp_special_cuts(n, at, k) || (l->over == SP_OVER_PIECES && l->fused == p->fused)) continue;
        if (k < at)
            REFUSE(w, "%s goes over pieces that %s gives it, and would be outside of it", l->name, p->name);
        if (l->over != SP_OVER_COUNT) continue;
        if (sp_special_same(l->digit, p->outer))
            outer = k;
        else if (outer < 0)
            REFUSE(w, "%s cuts two loops together, and %s, the inner, would be outside of the other", p->name,
                   l->name);
    }
    return SPARTA_OK;
}

/* Several positions of the result at a time: one loop is inside of theirs, in vectors, and summed. */
static const char *jam_refused(const sp_special *s, const sp_special_nest *n, int at)
{
    const sp_special_loop *l = &n->loop[at], *k = l + 1;
    if (s->statement[n->statement].reduce != SP_NEST_sum) return "the statement takes no sum";
    if (at + 2 != n->loops || k->bind != SP_BIND_VECTOR || sp_special_in_result(s, n, k->digit.index) ||
        l->digit.index < 0)
        return "its positions are the result's, and what is inside of it is not one sum, in vectors";
    if (l->range || l->positions || l->threads || l->caches || k->caches || k->threads ||
        sp_special_cutter(n, at) >= 0 || sp_special_runs(n, at))
        return "it is cut, shared or has a tile, or its coordinates come again";
    if (n->use[l->use].format->level[l->level].kind == SP_LEVEL_BITMAP)
        return "bits are found one after the other";
    return NULL;
}

/* Each loop over positions inside of those that say where they begin. */
static sparta_status check_order(const work *w)
{
    const sp_special_nest *n = w->n;
    bool bound[SP_SPECIAL_LOOPS] = {false};
    for (int i = 0; i < n->loops; i++) {
        const sp_special_loop *l = &n->loop[i];
        SP_TRY(check_pieces(w, i));
        if (!sp_special_opens(w->s, n, i, bound))
            REFUSE(w,
                   "%s goes over level %d of %s, which lies under loops that would come after it; keep those "
                   "outside",
                   l->name, l->level, w->s->operand[n->use[l->use].operand].name);
        if (l->range && sp_special_counter(n, i) > i)
            REFUSE(w, "%s goes over one range at a time, and %s, which counts them, would come after it",
                   l->name, l->with);
        if (l->threads && (l->over == SP_OVER_SEGMENT || (l->over == SP_OVER_PIECES && !l->fused)) && i)
            REFUSE(w, "%s is shared by threads and would not be the outermost loop", l->name);
        if (l->bind == SP_BIND_UNROLL && l->over == SP_OVER_SEGMENT && i + 1 < n->loops)
            REFUSE(w, "%s is unrolled over stored positions and would not be the innermost loop", l->name);
        if (l->bind == SP_BIND_UNROLL)
            for (int k = i + 1; k < n->loops; k++)
                if (n->loop[k].bind != SP_BIND_UNROLL)
                    REFUSE(w, "%s is unrolled, and %s inside of it is not", l->name, n->loop[k].name);
        if (l->bind == SP_BIND_VECTOR)
            for (int k = i + 1; k < n->loops; k++)
                if (sp_special_binds(&n->loop[k]) && n->loop[k].digit.index == l->digit.index)
                    REFUSE(w, "%s is in vectors and %s, a part of the same index, would be inside of it",
                           l->name, n->loop[k].name);
        SP_TRY(check_tiles(w, i));
        const char *jam = l->together ? jam_refused(w->s, n, i) : NULL;
        if (jam) REFUSE(w, "%s goes over several positions at a time, and %s", l->name, jam);
        const char *apart = l->apart ? apart_refused(w->s, n, i) : NULL;
        if (apart) REFUSE(w, "%s would be computed first, and %s", l->name, apart);
        bound[i] = true;
    }
    return SPARTA_OK;
}

static sparta_status apply_reorder(work *w)
{
    int place[MOST_ARGUMENTS], loop[MOST_ARGUMENTS];
    sp_special_nest old = *w->n;
    for (int i = 0; i < w->step->n; i++) {
        SP_TRY(find_loop(w, w->step->arg[i], &loop[i]));
        for (int k = 0; k < i; k++)
            if (loop[k] == loop[i]) REFUSE(w, "%s stands twice", w->step->arg[i]);
        int at = i;
        while (at && place[at - 1] > loop[i]) place[at] = place[at - 1], at--;
        place[at] = loop[i];
    }
    for (int i = 0; i < w->step->n; i++) w->n->loop[place[i]] = old.loop[loop[i]];
    const sparta_status status = check_order(w);
    if (status) *w->n = old;
    return status;
}

/* ------------------------------------------------------------------ the others */
static sparta_status number(const work *w, const char *text, int64_t least, int64_t most, int64_t *out)
{
    if (!sp_parse_int(text, out) || *out < least || *out > most)
        REFUSE(w, "'%s' is no whole number from %lld to %lld", text, (long long)least, (long long)most);
    return SPARTA_OK;
}

static sparta_status new_name(const work *w, const char *name, int but)
{
    if (!(name[0] >= 'a' && name[0] <= 'z') || strlen(name) > 7 ||
        strspn(name + 1, "0123456789") != strlen(name) - 1)
        REFUSE(w, "'%s' is no name of a loop: a small letter, and digits", name);
    for (int i = 0; i < w->n->loops; i++)
        if (i != but && !strcmp(w->n->loop[i].name, name)) REFUSE(w, "there is a loop '%s' already", name);
    for (int i = 0; i < w->s->indices; i++)
        if (!strcmp(w->s->index[i].name, name)) REFUSE(w, "'%s' is an index of the expression", name);
    return SPARTA_OK;
}

static sparta_status make_room(work *w, int at)
{
    sp_special_nest *n = w->n;
    if (n->loops == SP_SPECIAL_LOOPS) REFUSE(w, "there are %d loops already", n->loops);
    memmove(n->loop + at + 1, n->loop + at, (size_t)(n->loops - at) * sizeof *n->loop);
    n->loops++;
    return SPARTA_OK;
}

/* Lanes along a diagonal go from one of its ends to the other, wherever it lies: no loop goes over pieces. */
static sparta_status check_slides(const work *w)
{
    for (int i = 0; i < w->n->loops; i++)
        if (w->n->loop[i].bind == SP_BIND_VECTOR && on_diagonal(w->s, w->n, w->n->loop[i].digit.index))
            REFUSE(w, "%s is in vectors along a diagonal; say this before", w->n->loop[i].name);
    return SPARTA_OK;
}

/* Positions, so many at a time, wherever rows begin: the loop stays, inside of one over pieces. */
static sparta_status split_positions(work *w, int at, int64_t by)
{
    const step *t = w->step;
    sp_special_nest *n = w->n;
    SP_TRY(new_name(w, t->arg[1], at));
    SP_TRY(new_name(w, t->arg[2], at));
    if (!strcmp(t->arg[1], t->arg[2])) REFUSE(w, "both halves are called %s", t->arg[1]);
    if (n->loop[at].piece)
        REFUSE(w, "%s are pieces of %lld; split what is inside of them, or say so before", t->arg[0],
               (long long)n->loop[at].piece);
    SP_TRY(check_slides(w));
    SP_TRY(make_room(w, at));
    n->loop[at].over = SP_OVER_PIECES;
    n->loop[at].positions = false;
    n->loop[at].piece = by;
    memcpy(n->loop[at].name, t->arg[1], 8);
    memcpy(n->loop[at + 1].name, t->arg[2], 8);
    return SPARTA_OK;
}

static sparta_status apply_pos(work *w)
{
    const step *t = w->step;
    int at;
    SP_TRY(find_loop(w, t->arg[0], &at));
    sp_special_loop *l = &w->n->loop[at];
    if (l->over != SP_OVER_SEGMENT)
        REFUSE(w,
               l->over == SP_OVER_COUNT
                   ? "%s goes over all values of an index, whose positions they are; split it"
                   : "%s does not go over stored positions",
               l->name);
    const char *of = w->s->operand[w->n->use[l->use].operand].name;
    if (t->n > 2 && strcmp(t->arg[2], of))
        REFUSE(w, "%s goes over positions of %s, not of %s", l->name, of, t->arg[2]);
    if (w->n->use[l->use].format->level[l->level].kind == SP_LEVEL_BITMAP)
        REFUSE(w, "bits are found one after the other, and have no positions to cut");
    if (l->bind != SP_BIND_SERIAL || l->threads || l->positions) REFUSE(w, "%s is bound already", l->name);
    if (l->range) REFUSE(w, "%s goes over one range at a time", l->name);
    SP_TRY(new_name(w, t->arg[1], at));
    l->positions = true;
    memcpy(l->name, t->arg[1], 8);
    return SPARTA_OK;
}

/* Rows, and the positions in them: one array from the first row to the last. */
static const char *rows_refused(const sp_special *s, const sp_special_nest *n, const sp_special_loop *i,
                                const sp_special_loop *j)
{
    const sp_special_use *u = &n->use[j->use];
    if (j->level != 1 || u->format->level[1].kind != SP_LEVEL_COMPRESSED)
        return "positions of the inner loop do not follow one another from the first row to the last: only "
               "those of a "
               "compressed level below the first do";
    if (!sp_special_level_dense(u, 0) || !sp_special_same(i->digit, sp_special_level_digit(s, u, 0)))
        return "the outer loop is not that of the level above, or not all of its values are stored";
    return NULL;
}

static sparta_status apply_fuse(work *w)
{
    const step *t = w->step;
    sp_special_nest *n = w->n;
    int at, in;
    SP_TRY(find_loop(w, t->arg[0], &at));
    SP_TRY(find_loop(w, t->arg[1], &in));
    const sp_special_loop i = n->loop[at], j = n->loop[in];
    if (in != at + 1) REFUSE(w, "%s is not directly inside of %s; reorder them before", j.name, i.name);
    for (int k = at; k <= in; k++) {
        const sp_special_loop *l = &n->loop[k];
        if (l->bind != SP_BIND_SERIAL || l->threads || l->apart || l->caches)
            REFUSE(w, "%s is bound already", l->name);
        if (l->range || counts_ranges(l)) REFUSE(w, "%s goes over ranges, or counts them", l->name);
        for (int p = 0; p < n->loops; p++)
            if (sp_special_cuts(n, p, k)) REFUSE(w, "%s is cut by %s already", l->name, n->loop[p].name);
    }
    if (i.over != SP_OVER_COUNT || (j.over != SP_OVER_COUNT && j.over != SP_OVER_SEGMENT))
        REFUSE(w, "it takes a loop over an index, and one over another or over positions inside of it");
    if (j.over == SP_OVER_SEGMENT) {
        const char *refused = rows_refused(w->s, n, &i, &j);
        if (refused) REFUSE(w, "%s", refused);
    }
    SP_TRY(new_name(w, t->arg[2], -1));
    SP_TRY(check_slides(w));
    SP_TRY(make_room(w, at));
    n->loop[at] = (sp_special_loop){.over = SP_OVER_PIECES,
                                    .fused = true,
                                    .digit = j.digit,
                                    .outer = i.digit,
                                    .use = j.over == SP_OVER_SEGMENT ? j.use : -1,
                                    .level = j.level};
    memcpy(n->loop[at].name, t->arg[2], 8);
    return SPARTA_OK;
}

/* Stored coordinates that ascend can be gone over a range at a time: from where the range before ended, or from a search on. */
static bool has_ranges(const sp_special_nest *n, int at)
{
    const sp_special_loop *l = &n->loop[at];
    if (l->over != SP_OVER_SEGMENT || l->range || l->digit.modulus || l->digit.weight != 1 ||
        l->digit.index < 0)
        return false;
    const sp_level *v = &n->use[l->use].format->level[l->level];
    return v->kind == SP_LEVEL_COMPRESSED && sp_special_ordered(v) && !v->crd_bits &&
           sp_level_shares(n->use[l->use].format, l->level) == 1;
}

static void split_ranges(sp_special_nest *n, int at, const step *t, int64_t by)
{
    sp_special_loop counter = {.over = SP_OVER_COUNT, .use = -1, .digit = {SP_SPECIAL_RANGES, 0, 1}};
    memcpy(counter.name, t->arg[1], 8);
    n->loop[at] = counter;
    memcpy(n->loop[at + 1].name, t->arg[2], 8);
    memcpy(n->loop[at + 1].with, t->arg[1], 8);
    n->loop[at + 1].range = by;
}

static sparta_status apply_split(work *w)
{
    const step *t = w->step;
    sp_special_nest *n = w->n;
    int64_t by;
    int at;
    SP_TRY(find_loop(w, t->arg[0], &at));
    SP_TRY(number(w, t->arg[3], 2, 1 << 20, &by));
    if (counts_ranges(&n->loop[at])) REFUSE(w, "%s counts ranges", t->arg[0]);
    if (n->loop[at].bind != SP_BIND_SERIAL || n->loop[at].threads || n->loop[at].apart || n->loop[at].caches)
        REFUSE(w, "%s is bound already; split it before", t->arg[0]);
    if (n->loop[at].over == SP_OVER_PIECES || n->loop[at].positions) return split_positions(w, at, by);
    const bool ranges = has_ranges(n, at);
    if (n->loop[at].over != SP_OVER_COUNT && !ranges)
        REFUSE(
            w,
            "%s goes over what %s stores, not over an index or coordinates that ascend; if they are no bits, "
            "say pos(%s,p) and split that",
            t->arg[0], w->s->operand[n->use[n->loop[at].use].operand].name, t->arg[0]);
    for (int i = 0; i < n->loops; i++)
        if (sp_special_cuts(n, i, at))
            REFUSE(w, "%s goes over pieces that %s gives it; split that", t->arg[0], n->loop[i].name);
    SP_TRY(new_name(w, t->arg[1], at));
    SP_TRY(new_name(w, t->arg[2], at));
    if (!strcmp(t->arg[1], t->arg[2])) REFUSE(w, "both halves are called %s", t->arg[1]);
    const sp_special_digit d = n->loop[at].digit;
    const sp_special_nest old = *n;
    if (d.modulus && d.modulus / d.weight % by)
        REFUSE(w, "%s has %lld values, which %lld does not divide", t->arg[0],
               (long long)(d.modulus / d.weight), (long long)by);
    if (d.weight > MOST_STEP / by)
        REFUSE(w, "a step of %s would be more than %lld values", t->arg[1], (long long)MOST_STEP);
    SP_TRY(make_room(w, at));
    memcpy(n->loop[at].name, t->arg[1], 8);
    memcpy(n->loop[at + 1].name, t->arg[2], 8);
    if (ranges)
        split_ranges(n, at, t, by);
    else {
        n->loop[at].digit = (sp_special_digit){d.index, d.modulus, d.weight * by};
        n->loop[at + 1].digit = (sp_special_digit){d.index, d.weight * by, d.weight};
    }
    const sparta_status status = check_order(w);
    if (status) *n = old;
    return status;
}

/* Along the lanes an operand goes element by element: the last level is this part of the index, and nothing else depends on it. */
static bool unit(const sp_special *s, const sp_special_use *u, sp_special_digit d)
{
    const int last = sp_special_levels(s, u) - 1;
    if (!sp_special_uses(s, u, d.index)) return true;
    if (sp_special_looked_up(u)) return false;
    for (int l = 0; l <= last; l++) {
        if (!u->format) {
            const sp_nest_axis *x = &s->access[u->access].axis[l];
            for (int t = 0; t < x->n; t++)
                if (x->term[t].loop == d.index && (l < last || x->term[t].times != 1)) return false;
            continue;
        }
        const sp_special_digit of = sp_special_level_digit(s, u, l);
        if (of.index < 0) return false;
        if (of.index != d.index) continue;
        const bool along = of.weight == 1 && (!of.modulus || (d.modulus && of.modulus % d.modulus == 0)) &&
                           sp_special_level_dense(u, l);
        const bool still = d.modulus && of.weight % d.modulus == 0;
        if (l == last ? !along : !still) return false;
    }
    return true;
}

/* A diagonal makes one index from another: all that follows would be in vectors, or unrolled. */
static bool on_diagonal(const sp_special *s, const sp_special_nest *n, int index)
{
    for (int u = 0; u < n->uses; u++)
        for (int k = 0; n->use[u].needed && k < n->use[u].format->n; k++) {
            int dim, other;
            if (sp_special_diagonal(s, &n->use[u], k, &dim, &other) && (dim == index || other == index))
                return true;
        }
    return false;
}

/* May loop `at` be in vectors? NULL, or the reason why not: text in `why`. */
static const char *vector_refused(const sp_special *s, const sp_special_nest *n, int at, char why[160])
{
    const sp_special_loop *l = &n->loop[at];
    int diagonal;
    bool ahead;
    if (l->over != SP_OVER_COUNT) return "it goes over stored positions, which are no lanes";
    if (counts_ranges(l)) return "it counts ranges";
    if (l->digit.weight != 1) return "it goes in steps of more than one";
    for (int i = 0; i < n->loops; i++) {
        if (n->loop[i].bind == SP_BIND_VECTOR && i != at) return "another loop is in vectors already";
        if (n->loop[i].bind == SP_BIND_UNROLL && n->loop[i].over == SP_OVER_SEGMENT)
            return "stored positions are unrolled, with sums of their own";
    }
    const bool slides = sp_special_slides(s, n, at, &diagonal, &ahead) >= 0;
    for (int u = 0; u < n->uses && !slides; u++) {
        const sp_special_operand *o = &s->operand[n->use[u].operand];
        const int cached = sp_special_cached(n, u);
        if (((cached >= 0 && cached < at) || unit(s, &n->use[u], l->digit)) &&
            !(u == n->uses - 1 && o->like >= 0 && sp_special_uses(s, &n->use[u], l->digit.index)))
            continue;
        snprintf(why, 160, "elements of %s do not lie side by side along it", o->name);
        return why;
    }
    if (!slides && on_diagonal(s, n, l->digit.index)) return "a diagonal depends on it";
    for (int p = 0; p < n->loops; p++)
        if (sp_special_cuts(n, p, at) && (sp_special_same(l->digit, n->loop[p].outer) ||
                                          (l->digit.modulus && n->loop[p].outer.index != l->digit.index)))
            return "a piece may end inside of a vector: of two loops that are cut together the inner one has "
                   "lanes, where it is a whole index";
    return NULL;
}

/* Several positions at a time: the innermost loop, over positions that are summed. */
static const char *together_refused(const sp_special *s, const sp_special_nest *n, int at)
{
    const sp_special_loop *l = &n->loop[at];
    if (l->over == SP_OVER_PIECES) return "it goes over pieces, each of which is a loop";
    if (l->over != SP_OVER_SEGMENT) return "it is a search, which has one result";
    if (at + 1 != n->loops) return "it goes over stored positions and is not the innermost loop";
    if (l->range) return "it goes over one range at a time";
    if (sp_special_in_result(s, n, l->digit.index) || l->digit.index < 0)
        return "its positions are no sum: the result has its index";
    if (on_diagonal(s, n, l->digit.index)) return "a diagonal depends on it";
    for (int i = 0; i < n->loops; i++)
        if (n->loop[i].bind == SP_BIND_VECTOR) return "another loop is in vectors, which have sums enough";
    return NULL;
}

static bool has_bits(const sp_special_nest *n, int at)
{
    const sp_special_loop *l = &n->loop[at];
    return l->over == SP_OVER_SEGMENT && n->use[l->use].format->level[l->level].kind == SP_LEVEL_BITMAP;
}

/* With a sum each. */
static const char *turns_refused(const sp_special *s, const sp_special_nest *n, int at)
{
    if (has_bits(n, at)) return "bits are found one after the other";
    return together_refused(s, n, at);
}

/* Positions as lanes: their values and coordinates lie side by side or are bits, and every other operand is row-major with the coordinate as its last axis. */
static const char *gather_refused(const sp_special *s, const sp_special_nest *n, int at)
{
    const sp_special_loop *l = &n->loop[at];
    const char *refused = together_refused(s, n, at);
    if (refused) return refused;
    if (s->statement[n->statement].reduce != SP_NEST_sum) return "the statement takes no sum";
    for (int i = 0; i < n->loops; i++)
        if (n->loop[i].apart || n->loop[i].caches)
            return "a sum is computed first already, or an operand has a tile, which lanes of positions do "
                   "not read";
    const sp_format *f = n->use[l->use].format;
    const sp_level *v = &f->level[l->level];
    const bool listed =
        (v->kind == SP_LEVEL_COMPRESSED || v->kind == SP_LEVEL_PACKED || sp_special_runs(n, at - 1)) &&
        !v->crd_bits && sp_level_shares(f, l->level) == 1 &&
        (v->crd == SPARTA_I32 || v->crd == SPARTA_U16 || v->crd == SPARTA_U8);
    if (l->level + 1 != f->n || l->digit.modulus || l->digit.weight != 1 ||
        (!listed && v->kind != SP_LEVEL_BITMAP))
        return "its positions are lanes of a last level with bits, or whole coordinates of i32, u16 or u8 "
               "alone";
    for (int u = 0; u + 1 < n->uses; u++) {
        const sp_special_use *use = &n->use[u];
        if (!listed && sp_special_lies(&s->operand[use->operand]) != SPARTA_F32)
            return "bits are lanes where all operands are f32";
        if (u == l->use) continue;
        const int rank = sp_special_levels(s, use);
        if (s->operand[use->operand].stored || !rank ||
            sp_special_plain(&s->access[use->access].axis[rank - 1]) != l->digit.index)
            return "the other operands of positions in lanes are row-major, with its index last";
        for (int d = 0; d < rank - 1; d++)
            for (int t = 0; t < s->access[use->access].axis[d].n; t++)
                if (s->access[use->access].axis[d].term[t].loop == l->digit.index)
                    return "the other operands of positions in lanes have its index once";
    }
    return NULL;
}

static sparta_status gather_positions(work *w, int at)
{
    sp_special_loop *l = &w->n->loop[at];
    int64_t vectors = 1;
    const char *refused = gather_refused(w->s, w->n, at);
    if (refused) REFUSE(w, "%s", refused);
    if (w->step->n > 1) SP_TRY(number(w, w->step->arg[1], 1, SP_SPECIAL_VECTORS, &vectors));
    if (vectors > 1 && has_bits(w->n, at))
        REFUSE(w, "bits are lanes of one vector; say vectorize(%s)", l->name);
    if (l->bind != SP_BIND_SERIAL || l->threads) REFUSE(w, "%s is bound already", l->name);
    l->vectors = (int)vectors;
    l->gather = true;
    l->bind = SP_BIND_UNROLL;
    return SPARTA_OK;
}

static sparta_status apply_vectorize(work *w)
{
    char why[160];
    int64_t vectors = 1;
    int at;
    SP_TRY(find_loop(w, w->step->arg[0], &at));
    if (w->n->loop[at].over == SP_OVER_SEGMENT) return gather_positions(w, at);
    if (w->step->n > 1) SP_TRY(number(w, w->step->arg[1], 1, SP_SPECIAL_VECTORS, &vectors));
    sp_special_loop *l = &w->n->loop[at], old = *l;
    const char *refused = vector_refused(w->s, w->n, at, why);
    if (refused) REFUSE(w, "%s", refused);
    if (l->bind != SP_BIND_SERIAL) REFUSE(w, "%s is bound already; say vectorize first", l->name);
    l->bind = SP_BIND_VECTOR;
    l->vectors = (int)vectors;
    const sparta_status status = check_order(w);
    if (status) *l = old;
    return status;
}

/* Positions that the result has, each with sums of its own in what is inside. */
static sparta_status jam_positions(work *w, int at, int64_t turns)
{
    sp_special_loop *l = &w->n->loop[at];
    const char *refused = jam_refused(w->s, w->n, at);
    if (refused) REFUSE(w, "%s", refused);
    if (l->together) REFUSE(w, "%s is bound already", l->name);
    l->together = (int)turns;
    return SPARTA_OK;
}

static sparta_status unroll_positions(work *w, int at)
{
    int64_t turns = 4;
    sp_special_loop *l = &w->n->loop[at];
    if (l->over == SP_OVER_SEGMENT && at + 1 < w->n->loops && l->bind == SP_BIND_SERIAL &&
        l->digit.index >= 0 && sp_special_in_result(w->s, w->n, l->digit.index)) {
        if (w->step->n > 1) SP_TRY(number(w, w->step->arg[1], 2, SP_SPECIAL_VECTORS, &turns));
        return jam_positions(w, at, turns);
    }
    const char *refused = turns_refused(w->s, w->n, at);
    if (refused) REFUSE(w, "%s", refused);
    if (l->bind != SP_BIND_SERIAL || l->threads || l->caches) REFUSE(w, "%s is bound already", l->name);
    if (w->step->n > 1) SP_TRY(number(w, w->step->arg[1], 2, SP_SPECIAL_VECTORS, &turns));
    l->vectors = (int)turns;
    l->bind = SP_BIND_UNROLL;
    return SPARTA_OK;
}

static sparta_status apply_unroll(work *w)
{
    int at;
    int64_t sums = 1;
    SP_TRY(find_loop(w, w->step->arg[0], &at));
    sp_special_loop *l = &w->n->loop[at];
    if (l->over != SP_OVER_COUNT) return unroll_positions(w, at);
    const int64_t extent = sp_special_steps(w->n, l);
    if (w->step->n > 1)
        REFUSE(w, "%s goes over an index, all of whose values are written out; say unroll(%s)", l->name,
               l->name);
    if (l->bind != SP_BIND_SERIAL || l->threads || l->caches) REFUSE(w, "%s is bound already", l->name);
    if (on_diagonal(w->s, w->n, l->digit.index)) REFUSE(w, "a diagonal depends on it");
    for (int i = 0; i < w->n->loops; i++)
        if (sp_special_cuts(w->n, i, at))
            REFUSE(w, "it goes over pieces that %s gives it", w->n->loop[i].name);
    if (!extent || extent > MOST_UNROLL)
        REFUSE(w, "%s has %s values; split it into parts of at most %d", l->name,
               extent ? "too many" : "a varying number of", MOST_UNROLL);
    for (int i = 0; i < w->n->loops; i++) {
        const sp_special_loop *o = &w->n->loop[i];
        if (o == l || (o->bind == SP_BIND_UNROLL && o->over == SP_OVER_COUNT))
            sums *= sp_special_steps(w->n, o);
        if (sums > MOST_COPIES)
            REFUSE(w, "more than %d copies of what is inside would be written", MOST_COPIES);
    }
    l->bind = SP_BIND_UNROLL;
    const sparta_status status = check_order(w);
    if (status) l->bind = SP_BIND_SERIAL;
    return status;
}

bool sp_special_shares(const sp_special_nest *n)
{
    for (int i = 0; i < n->loops; i++)
        if (n->loop[i].threads) return true;
    return false;
}

bool sp_special_temporaries(const sp_special_nest *n)
{
    for (int i = 0; i < n->loops; i++)
        if (n->loop[i].temporaries) return true;
    return false;
}

/* Whoever writes what: can the loop be cut into shares at all? */
static const char *cut_refused(const sp_special_nest *n, int at)
{
    const sp_special_loop *l = &n->loop[at];
    if (sp_special_shares(n)) return "another loop is shared by threads already";
    if (l->bind == SP_BIND_UNROLL) return "it is unrolled";
    if (counts_ranges(l)) return "it counts ranges";
    if (l->range) return "it goes over one range at a time";
    if (l->over == SP_OVER_MERGE) return "it is a search, which has one result";
    if (sp_special_cutter(n, at) >= 0) return "it goes over pieces that another loop gives it; share that";
    if (l->over == SP_OVER_COUNT || l->fused) return NULL;
    if (at) return "it goes over stored positions and is not the outermost loop";
    if (n->use[l->use].format->level[l->level].kind == SP_LEVEL_BITMAP)
        return "bits cannot be cut where a thread's share ends";
    return NULL;
}

/* Each thread does its share of one loop of the result, and all of the others: no element is written by two. */
static const char *threads_refused(const sp_special *s, const sp_special_nest *n, int at, char why[160])
{
    const sp_special_loop *l = &n->loop[at];
    const char *refused = cut_refused(n, at);
    if (refused) return refused;
    if (!sp_special_in_result(s, n, l->digit.index) ||
        (l->fused && !sp_special_in_result(s, n, l->outer.index))) {
        snprintf(why, 160,
                 "two threads would add to one element of %s, which does not have it; share a loop of the "
                 "result, or say threads(%s,temporaries)",
                 s->operand[sp_special_target(n)->operand].name, l->name);
        return why;
    }
    if (l->over == SP_OVER_COUNT || l->use < 0) return NULL;
    if (!sp_special_ordered(&n->use[l->use].format->level[l->level])) {
        snprintf(why, 160,
                 "its coordinates may come again, and two threads would add to one element; say "
                 "threads(%s,temporaries)",
                 l->name);
        return why;
    }
    return NULL;
}

static sparta_status apply_threads(work *w)
{
    char why[160];
    int at;
    SP_TRY(find_loop(w, w->step->arg[0], &at));
    if (w->step->n > 1 && strcmp(w->step->arg[1], "temporaries"))
        REFUSE(w, "'%s' is not known; say threads(%s) or threads(%s,temporaries)", w->step->arg[1],
               w->step->arg[0], w->step->arg[0]);
    const char *refused = threads_refused(w->s, w->n, at, why);
    const bool resolved = refused && w->step->n > 1 && !cut_refused(w->n, at);
    if (refused && !resolved) REFUSE(w, "%s", refused);
    w->n->loop[at].threads = true;
    w->n->loop[at].temporaries = resolved;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ sizes and tiles */
static sparta_status apply_bound(work *w)
{
    int64_t size;
    int i = 0;
    SP_TRY(number(w, w->step->arg[1], 1, MOST_STEP, &size));
    while (i < w->s->indices && strcmp(w->s->index[i].name, w->step->arg[0])) i++;
    if (i == w->s->indices) REFUSE(w, "there is no index '%s' in the expression", w->step->arg[0]);
    if (w->s->index[i].size >= 0 && w->s->index[i].size != size)
        REFUSE(w, "%s has %lld values", w->step->arg[0], (long long)w->s->index[i].size);
    if (w->n->bound[i] && w->n->bound[i] != size)
        REFUSE(w, "%s was said to have %lld values", w->step->arg[0], (long long)w->n->bound[i]);
    w->n->bound[i] = size;
    return SPARTA_OK;
}

/* The loops in their order but for these three: lanes where it is, or outside of the others, which go innermost. */
static void tile_order(const sp_special_nest *n, int rows, int sum, int lanes, sp_text *out)
{
    const int inner = SP_MIN(rows, sum);
    for (int i = 0; i < n->loops; i++)
        if (i != rows && i != sum && (i != lanes || lanes < inner))
            sp_text_printf(out, "%s,", n->loop[i].name);
    if (lanes > inner) sp_text_printf(out, "%s,", n->loop[lanes].name);
    sp_text_printf(out, "%s,%s)", n->loop[sum].name, n->loop[rows].name);
}

/* Rows and columns of a result in registers, by a short sum: what reorder, vectorize and unroll say one by one. */
static sparta_status apply_tensorize(work *w)
{
    int rows, sum, lanes;
    int64_t vectors = SP_SPECIAL_VECTORS;
    const sp_special_nest old = *w->n;
    SP_TRY(find_loop(w, w->step->arg[0], &rows));
    SP_TRY(find_loop(w, w->step->arg[1], &sum));
    SP_TRY(find_loop(w, w->step->arg[2], &lanes));
    const sp_special_loop *r = &old.loop[rows], *j = &old.loop[sum], *k = &old.loop[lanes];
    const int64_t tall = r->over == SP_OVER_COUNT ? sp_special_steps(&old, r) : 0;
    if (rows == sum || rows == lanes || sum == lanes) REFUSE(w, "a loop stands twice");
    if (tall < 1 || tall > SP_SPECIAL_VECTORS)
        REFUSE(w,
               "%s has no fixed number of values up to %d: it is the rows of a tile; split it, or say bound",
               r->name, SP_SPECIAL_VECTORS);
    if (!sp_special_in_result(w->s, &old, r->digit.index) ||
        !sp_special_in_result(w->s, &old, k->digit.index))
        REFUSE(w, "the result does not have %s and %s: they are rows and lanes of a tile", r->name, k->name);
    if (j->over != SP_OVER_COUNT || !sp_special_steps(&old, j) ||
        sp_special_in_result(w->s, &old, j->digit.index))
        REFUSE(w, "%s is no sum over a fixed number of values", j->name);
    while (vectors * tall > SP_SPECIAL_VECTORS) vectors /= 2;
    if (w->step->n > 3) SP_TRY(number(w, w->step->arg[3], 1, SP_SPECIAL_VECTORS, &vectors));
    sp_text text;
    sp_text_init(&text, w->s->cx);
    sp_text_printf(&text, "reorder(");
    tile_order(&old, rows, sum, lanes, &text);
    sp_text_printf(&text, "; vectorize(%s,%lld); unroll(%s); unroll(%s)", k->name, (long long)vectors,
                   r->name, j->name);
    sparta_status status = text.status ? text.status : sp_special_apply(w->s, w->n, sp_text_str(&text));
    sp_text_free(&text);
    if (!status) return SPARTA_OK;
    *w->n = old;
    return sp_fail_in(w->s->cx, "%s", w->step->text);
}

/* ------------------------------------------------------------------ nests that become one function */
static int dim_of(const sp_special *s, int access, int index)
{
    const sp_special_access *a = &s->access[access];
    for (int d = 0; d < s->operand[a->operand].rank; d++)
        if (sp_special_plain(&a->axis[d]) == index) return d;
    return -1;
}

/* What one of two nests writes the other has at the same value of the index, so that it does not matter which values come first. */
static const char *touch_refused(const sp_special *s, const sp_special_nest *writes,
                                 const sp_special_nest *other, int index, char why[160])
{
    const sp_special_use *t = sp_special_target(writes);
    const int d = dim_of(s, t->access, index);
    for (int u = 0; u < other->uses; u++) {
        if (other->use[u].operand != t->operand || dim_of(s, other->use[u].access, index) == d) continue;
        snprintf(why, 160, "%s is written by one nest and used by the other at other values of %s",
                 s->operand[t->operand].name, s->index[index].name);
        return why;
    }
    return NULL;
}

static const char *join_refused(const sp_special *s, int leader, int number, char why[160])
{
    const sp_special_nest *n = s->nest[number], *first = s->nest[leader];
    const sp_special_loop *l = &n->loop[0];
    int cleared;
    if (!first->loops) return "the nest before has no loops";
    const sp_special_loop *o = &first->loop[0];
    if (o->over != SP_OVER_COUNT || !sp_special_same(l->digit, o->digit))
        return "the nest before has another outermost loop";
    if (l->bind != o->bind || l->vectors != o->vectors || l->threads != o->threads || l->temporaries ||
        o->temporaries)
        return "the nest before has it bound otherwise; say hfuse after what binds it, and the same for both";
    if (sp_special_shares(n) != l->threads || sp_special_shares(first) != o->threads)
        return "a loop inside of it is shared by threads";
    if (n->bound[l->digit.index] != first->bound[l->digit.index])
        return "the nest before has it bounded otherwise";
    const bool clears = sp_special_clears(s, number, &cleared);
    for (int m = leader; m < number; m++) {
        const sp_special_nest *before = s->nest[m];
        const char *refused = touch_refused(s, before, n, l->digit.index, why);
        if (!refused) refused = touch_refused(s, n, before, l->digit.index, why);
        if (refused) return refused;
        for (int u = 0; clears && u < before->uses; u++)
            if (before->use[u].operand == cleared)
                return "its result is cleared before both run, and the nest before uses it";
    }
    return NULL;
}

static sparta_status apply_hfuse(work *w)
{
    char why[160];
    int at, number = 0;
    SP_TRY(find_loop(w, w->step->arg[0], &at));
    const sp_special_loop *l = &w->n->loop[at];
    if (at || l->over != SP_OVER_COUNT) REFUSE(w, "%s is not the outermost loop, over an index", l->name);
    if (l->bind == SP_BIND_UNROLL || !sp_special_in_result(w->s, w->n, l->digit.index))
        REFUSE(w,
               "%s is unrolled, or the result does not have it: what is inside would not end with one of its "
               "values",
               l->name);
    while (number < w->s->nests && w->s->nest[number] != w->n) number++;
    int leader = number - 1;
    while (leader > 0 && leader < w->s->nests && w->s->nest[leader]->joined) leader--;
    if (!number || number == w->s->nests) return SPARTA_OK; /* the first: others join it */
    const sp_special_loop *o = w->s->nest[leader]->loops ? &w->s->nest[leader]->loop[0] : NULL;
    if (o && !sp_special_in_result(w->s, w->s->nest[leader], o->digit.index))
        REFUSE(w, "the result of the nest before does not have %s", l->name);
    const char *refused = join_refused(w->s, leader, number, why);
    if (refused) REFUSE(w, "%s", refused);
    w->n->joined = true;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ texts */
static const struct {
    const char *name;
    int fewest, most;
    sparta_status (*apply)(work *w);
    const char *example;
} primitives[] = {
#define SP_PRIMITIVE(name, fewest, most, example, what) {#name, fewest, most, apply_##name, example},
#include "special/primitives.def"
#undef SP_PRIMITIVE
};

static void skip(const char **p)
{
    while (**p == ' ' || **p == '\n' || **p == '\t' || **p == ';') (*p)++;
}

static bool word(const char **p, char out[NAME])
{
    size_t n = 0;
    while (**p == ' ') (*p)++;
    while (((*p)[n] >= 'a' && (*p)[n] <= 'z') || ((*p)[n] >= 'A' && (*p)[n] <= 'Z') ||
           ((*p)[n] >= '0' && (*p)[n] <= '9') || (*p)[n] == '_')
        if (++n == NAME) return false;
    memcpy(out, *p, n);
    out[n] = 0;
    *p += n;
    while (**p == ' ') (*p)++;
    return n > 0;
}

static sparta_status unreadable(sparta_ctx *cx, const char *from, const char *p)
{
    char near[24];
    snprintf(near, sizeof near, "%.16s", p);
    sp_clean(near);
    return sp_fail(cx, SPARTA_E_USAGE, "schedule:%ld: a primitive such as vectorize(k,4) is expected at '%s'",
                   (long)(p - from) + 1, near);
}

static sparta_status read_step(sparta_ctx *cx, const char *from, const char **p, step *out)
{
    const char *begin = *p;
    *out = (step){0};
    if (!word(p, out->name) || **p != '(') return unreadable(cx, from, begin);
    do {
        (*p)++;
        if (out->n == MOST_ARGUMENTS)
            return sp_fail(cx, SPARTA_E_USAGE, "schedule:%ld: %s has more than %d arguments",
                           (long)(*p - from) + 1, out->name, MOST_ARGUMENTS);
        if (!word(p, out->arg[out->n++])) return unreadable(cx, from, *p);
    } while (**p == ',');
    if (**p != ')') return unreadable(cx, from, *p);
    (*p)++;
    snprintf(out->text, sizeof out->text, "%.*s", (int)SP_MIN(*p - begin, 79), begin);
    return SPARTA_OK;
}

static sparta_status apply_step(work *w)
{
    const char *all[SP_COUNT(primitives)];
    char hint[SP_HINT];
    for (int i = 0; i < w->s->nests; i++) {
        const bool joined = i + 1 < w->s->nests && w->s->nest[i + 1]->joined;
        if (w->s->nest[i] == w->n && (w->n->joined || joined))
            REFUSE(w, "the nest is one function with another; say this before hfuse");
    }
    for (size_t i = 0; i < SP_COUNT(primitives); i++) {
        all[i] = primitives[i].name;
        if (strcmp(primitives[i].name, w->step->name)) continue;
        if (w->step->n < primitives[i].fewest || w->step->n > primitives[i].most)
            REFUSE(w, "it has %d arguments; say %s", w->step->n, primitives[i].example);
        return primitives[i].apply(w);
    }
    REFUSE(w, "there is no such primitive%s",
           sp_did_you_mean(w->step->name, all, (int)SP_COUNT(primitives),
                           " (reorder, split, fuse, pos, vectorize, unroll, threads, bound, precompute, "
                           "cache, tensorize, hfuse)",
                           hint));
}

sparta_status sp_special_apply(sp_special *s, sp_special_nest *n, const char *text)
{
    const char *p = text;
    skip(&p);
    for (int i = 0; *p; i++, skip(&p)) {
        step t;
        if (i == MOST_PRIMITIVES)
            return sp_fail(s->cx, SPARTA_E_USAGE, "schedule: there are more than %d primitives",
                           MOST_PRIMITIVES);
        SP_TRY(read_step(s->cx, text, &p, &t));
        SP_TRY(apply_step(&(work){s, n, &t}));
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the default */
/* Does no loop over positions need this one outside of it? */
static bool movable(const sp_special *s, const sp_special_nest *n, int at)
{
    for (int i = 0; i < n->loops; i++) {
        bool bound[SP_SPECIAL_LOOPS];
        memset(bound, true, sizeof bound);
        bound[at] = bound[i] = false;
        if (i != at && !sp_special_opens(s, n, i, bound)) return false;
    }
    return true;
}

/* Lanes of the result go first, so that what is inside works on a tile of columns; not where another part of their index is stored. */
static bool goes_first(const sp_special *s, const sp_special_nest *n, int at)
{
    for (int i = 0; i < n->loops; i++)
        if (n->loop[i].over == SP_OVER_SEGMENT && n->loop[i].digit.index == n->loop[at].digit.index)
            return false;
    return sp_special_in_result(s, n, n->loop[at].digit.index);
}

/* The loop whose values make the best lanes: one of the result rather than one that is summed, the longest part rather than a short one. */
static int best_vector(const sp_special *s, const sp_special_nest *n)
{
    char why[160];
    int best = -1, best_rank = -1;
    for (int i = 0; i < n->loops; i++) {
        if (vector_refused(s, n, i, why)) continue;
        if (!goes_first(s, n, i) && !movable(s, n, i)) continue;
        const int64_t extent = sp_special_extent(n->loop[i].digit);
        int uses = 0;
        for (int u = 0; u < n->uses - 1; u++) uses += sp_special_uses(s, &n->use[u], n->loop[i].digit.index);
        const int rank = on_diagonal(s, n, n->loop[i].digit.index)
                             ? 8 /* where nothing else is */
                             : (!extent || extent >= 16 ? 8 : 0) +
                                   (sp_special_in_result(s, n, n->loop[i].digit.index) ? 4 : 0) +
                                   SP_MIN(uses, 3);
        if (rank > best_rank && (rank & 8)) best = i, best_rank = rank;
    }
    return best;
}

/* Short loops of blocks that can be written out: those of the result have a register each for every vector. */
static bool short_loop(const sp_special_loop *l)
{
    const int64_t extent = l->over == SP_OVER_COUNT ? sp_special_extent(l->digit) : 0;
    return extent > 1 && extent <= 8;
}

static int lanes_of(sp_target target)
{
    return target == SP_TARGET_AVX512 ? 16 : target == SP_TARGET_AVX2 ? 8 : 4;
}

/* As many vectors as have registers for all rows of sums, and as there are values for. */
static int vectors_at_once(const sp_special *s, const sp_special_nest *n, int loop, sp_target target,
                           int rows)
{
    const sp_special_digit d = n->loop[loop].digit;
    const int sums = target == SP_TARGET_AVX512 ? 16 : 8, lanes = lanes_of(target);
    const int64_t values = d.modulus ? sp_special_extent(d) : s->index[d.index].size;
    int vectors = SP_SPECIAL_VECTORS;
    while (vectors > 1 && (vectors * rows > sums || (values >= 0 && vectors * lanes > values))) vectors /= 2;
    return vectors;
}

typedef struct ordering {
    const sp_special *s;
    const sp_special_nest *n;
    sp_text *out;
    bool taken[SP_SPECIAL_LOOPS], bound[SP_SPECIAL_LOOPS];
    int count;
} ordering;

/* The next loop of the order; and searches that it makes possible, as far outside as they can be. */
static void say(ordering *o, int loop)
{
    sp_text_printf(o->out, "%s%s", o->count++ ? "," : "reorder(", o->n->loop[loop].name);
    o->taken[loop] = o->bound[loop] = true;
    for (int m = 0; m < o->n->loops; m++)
        if (o->n->loop[m].over == SP_OVER_MERGE && !o->taken[m] && sp_special_opens(o->s, o->n, m, o->bound))
            say(o, m);
}

/* A loop over an index that is long, so that every thread has some; else over what is stored, else the one in vectors. */
static int best_threads(const sp_special *s, const sp_special_nest *n)
{
    char why[160];
    int best = -1, best_rank = 0;
    for (int i = 0; i < n->loops; i++) {
        const sp_special_loop *l = &n->loop[i];
        if (threads_refused(s, n, i, why)) continue;
        const int rank = l->over == SP_OVER_SEGMENT                                 ? 2
                         : sp_special_extent(l->digit) || l->bind == SP_BIND_VECTOR ? 1
                                                                                    : 3;
        if (rank > best_rank) best = i, best_rank = rank;
    }
    return best;
}

/* With what stands in the text so far the loops are in their places: then it is seen which of them threads may share. */
static sparta_status say_threads(const sp_special *s, const sp_special_nest *n, sp_text *out)
{
    sp_special_nest tried = *n;
    sp_special unchanged = *s;
    SP_TRY(out->status);
    SP_TRY(sp_special_apply(&unchanged, &tried, sp_text_str(out)));
    const int at = sp_special_shares(&tried) ? -1 : best_threads(s, &tried);
    if (at >= 0) sp_text_printf(out, "; threads(%s)", tried.loop[at].name);
    return out->status;
}

/* Without lanes, a loop of the result that no stored operand has stands outside: positions are then inside of it, and what they sum is one number. */
static bool stands_outside(const sp_special *s, const sp_special_nest *n, int at)
{
    bool positions = false;
    for (int i = 0; i < n->loops; i++) positions |= n->loop[i].over == SP_OVER_SEGMENT;
    for (int u = 0; u < n->uses; u++)
        if (n->use[u].needed && sp_special_uses(s, &n->use[u], n->loop[at].digit.index)) return false;
    return positions && n->loop[at].over == SP_OVER_COUNT &&
           sp_special_in_result(s, n, n->loop[at].digit.index) && movable(s, n, at);
}

static bool name_free(const sp_special *s, const sp_special_nest *n, const char *name)
{
    for (int i = 0; i < n->loops; i++)
        if (!strcmp(n->loop[i].name, name)) return false;
    for (int i = 0; i < s->indices; i++)
        if (!strcmp(s->index[i].name, name)) return false;
    return strlen(name) < 8;
}

/* What only moves elements, and has them side by side along one loop here and along another there: the last loop, 16 at a time inside of the one before it,
 * so that of both a few lines of the cache are at hand. *done false: it is something else. */
static void say_tiles(const sp_special *s, const sp_special_nest *n, sp_text *out, bool *done)
{
    const int last = n->loops - 1;
    char outer[16], inner[16];
    *done = last > 0;
    for (int i = 0; i < n->loops; i++)
        *done &= n->loop[i].over == SP_OVER_COUNT && sp_special_in_result(s, n, n->loop[i].digit.index);
    for (int u = 0; u < n->uses; u++) *done &= !n->use[u].sparse;
    if (!*done || sp_special_extent(n->loop[last].digit) || n->loop[last].digit.weight > 1) *done = false;
    if (!*done) return;
    snprintf(outer, sizeof outer, "%s0", n->loop[last].name);
    snprintf(inner, sizeof inner, "%s1", n->loop[last].name);
    *done = name_free(s, n, outer) && name_free(s, n, inner);
    if (!*done) return;
    sp_text_printf(out, "split(%s,%s,%s,16); reorder(", n->loop[last].name, outer, inner);
    for (int i = 0; i < last - 1; i++) sp_text_printf(out, "%s,", n->loop[i].name);
    sp_text_printf(out, "%s,%s,%s)", outer, n->loop[last - 1].name, inner);
}

/* A format that stores columns adds to results all over memory: 64 KB of them at a time stay in the caches next to the core, and where each of 256 columns has
 * come to is kept. *done false: it is something else. */
enum { COLUMNS = 256, RESULT_BYTES = 1 << 16 };

/* The loops over columns, all values of an index that is summed, and over the rows that each stores; there are no other positions. */
static bool stores_columns(const sp_special *s, const sp_special_nest *n, int vector, int *column, int *row)
{
    *column = *row = -1;
    for (int i = 0; i < n->loops; i++) {
        const sp_special_loop *l = &n->loop[i];
        const bool result = sp_special_in_result(s, n, l->digit.index);
        if (l->over == SP_OVER_COUNT && result) continue;
        if (l->over == SP_OVER_COUNT && *column < 0 && !l->digit.modulus && l->digit.weight == 1)
            *column = i;
        else if (has_ranges(n, i) && result && *row < 0)
            *row = i;
        else
            return false;
    }
    return vector >= 0 && goes_first(s, n, vector) && *column >= 0 && *row >= 0 && !movable(s, n, *column);
}

static void say_columns(const sp_special *s, const sp_special_nest *n, int vector, sp_target target,
                        sp_text *out, bool *done)
{
    char half[4][12];
    int column, row;
    *done = stores_columns(s, n, vector, &column, &row);
    if (!*done) return;
    const int vectors = vectors_at_once(s, n, vector, target, 1),
              rows = RESULT_BYTES / (4 * vectors * lanes_of(target));
    const int64_t all = s->index[n->loop[row].digit.index].size;
    *done = all < 0 || all > rows;
    for (int i = 0; i < 4 && *done; i++) {
        snprintf(half[i], sizeof half[i], "%.8s%d", n->loop[i < 2 ? column : row].name, i % 2);
        *done = name_free(s, n, half[i]);
    }
    if (!*done) return;
    sp_text_printf(out, "split(%s,%s,%s,%d); split(%s,%s,%s,%d); reorder(", n->loop[column].name, half[0],
                   half[1], COLUMNS, n->loop[row].name, half[2], half[3], rows);
    for (int i = 0; i < n->loops; i++)
        if (i != column && i != row && i != vector) sp_text_printf(out, "%s,", n->loop[i].name);
    sp_text_printf(out, "%s,%s,%s,%s,%s); vectorize(%s,%d)", n->loop[vector].name, half[0], half[2], half[1],
                   half[3], n->loop[vector].name, vectors);
}

/* Where stored positions say which rows of a matrix are read, and that matrix does not fit the L2 cache but a strip of it does, strip after strip, copied first: rows
 * of a strip are lines of the cache side by side, and each is read often enough to be worth the copy. *done false: it is something else. */
enum { STRIP = 32, NARROWEST = 16, READS = 16, SHARED_STRIPS = 8 };

/* The row-major matrix that a nest reads with the lanes as its last index and rows that stored positions say, each about `*reads` times; -1: there is none. */
static int gathered_matrix(const sp_special *s, const sp_special_nest *n, int vector, int64_t *rows,
                           double *reads)
{
    for (int i = 0; i < n->loops; i++) {
        const sp_special_loop *l = &n->loop[i];
        if (l->over != SP_OVER_SEGMENT || l->digit.index < 0 || l->digit.modulus || l->digit.weight != 1)
            continue;
        const sp_special_operand *lead = &s->operand[n->use[l->use].operand];
        *rows = s->index[l->digit.index].size;
        *reads = *rows > 0 ? (double)lead->count / (double)*rows : 0;
        for (int u = 0; u + 1 < n->uses && lead->leaves == 1; u++) {
            const sp_special_access *a = &s->access[n->use[u].access];
            const sp_special_operand *o = &s->operand[n->use[u].operand];
            if (!o->stored && o->rank == 2 && sp_special_plain(&a->axis[0]) == l->digit.index &&
                sp_special_plain(&a->axis[1]) == n->loop[vector].digit.index)
                return u;
        }
    }
    return -1;
}

static bool plain_loops(const sp_special_nest *n)
{
    for (int i = 0; i < n->loops; i++)
        if (n->loop[i].digit.modulus || n->loop[i].digit.weight != 1 ||
            (n->loop[i].over != SP_OVER_COUNT && n->loop[i].over != SP_OVER_SEGMENT))
            return false;
    return true;
}

static void say_strips(const sp_special *s, const sp_special_nest *n, int vector, sp_target target,
                       sp_text *out, bool *done)
{
    const int64_t l2 = (int64_t)sp_cpu_info()->l2 / 4;
    const char *k = vector < 0 ? "" : n->loop[vector].name;
    char half[2][12];
    int64_t rows = 0, strip = STRIP;
    double reads = 0;
    *done = false;
    if (vector < 0 || !goes_first(s, n, vector) || !plain_loops(n)) return;
    const int matrix = gathered_matrix(s, n, vector, &rows, &reads);
    const int64_t columns = s->index[n->loop[vector].digit.index].size;
    if (matrix < 0 || rows <= 0 || reads < READS || columns <= 0 || columns <= l2 / rows) return;
    while (strip > NARROWEST && strip > l2 / rows) strip /= 2;
    for (int i = 0; i < 2; i++) snprintf(half[i], sizeof half[i], "%.8s%d", k, i);
    if (strip > l2 / rows || !name_free(s, n, half[0]) || !name_free(s, n, half[1])) return;
    *done = true;
    sp_text_printf(out, "split(%s,%s,%s,%d); reorder(%s,%s", k, half[0], half[1], (int)strip, half[0],
                   half[1]);
    for (int i = 0; i < n->loops; i++)
        if (i != vector) sp_text_printf(out, ",%s", n->loop[i].name);
    sp_text_printf(out, "); vectorize(%s,%d); cache(%s,%s,scratch)", half[1], (int)strip / lanes_of(target),
                   s->operand[n->use[matrix].operand].name, half[0]);
    /* Threads share strips where there are many, else rows, and each then copies all strips. */
    int shared = 0;
    while (shared < n->loops && (shared == vector || n->loop[shared].over != SP_OVER_COUNT ||
                                 !sp_special_in_result(s, n, n->loop[shared].digit.index)))
        shared++;
    if (shared < n->loops && columns < SHARED_STRIPS * strip)
        sp_text_printf(out, "; threads(%s)", n->loop[shared].name);
}

/* Of positions that are the innermost loop, several at a time. Where there are no 16 lanes, loads one by one are as fast as to gather. */
static sparta_status say_turns(const sp_special *s, const sp_special_nest *n, sp_target target, sp_text *out)
{
    sp_special_nest tried = *n;
    sp_special unchanged = *s;
    SP_TRY(out->status);
    SP_TRY(sp_special_apply(&unchanged, &tried, sp_text_str(out)));
    if (tried.loops && target == SP_TARGET_AVX512 && !gather_refused(s, &tried, tried.loops - 1))
        sp_text_printf(out, has_bits(&tried, tried.loops - 1) ? "; vectorize(%s)" : "; vectorize(%s,2)",
                       tried.loop[tried.loops - 1].name);
    else if (tried.loops && !turns_refused(s, &tried, tried.loops - 1))
        sp_text_printf(out, "; unroll(%s,4)", tried.loop[tried.loops - 1].name);
    return out->status;
}

/* Lanes of one sum inside of positions that the result has: several positions at a time share what they load and how lanes are added up, and what does not depend on the
 * sum is multiplied once. *at -1: it is something else. */
enum { TOGETHER = 4 };
static sparta_status find_together(const sp_special *s, const sp_special_nest *n, int vector,
                                   const char *so_far, int *at, bool *apart)
{
    sp_special_nest tried = *n;
    sp_special unchanged = *s;
    char lanes[40];
    snprintf(lanes, sizeof lanes, "vectorize(%s)", n->loop[vector].name);
    SP_TRY(sp_special_apply(&unchanged, &tried, so_far));
    SP_TRY(sp_special_apply(&unchanged, &tried, lanes));
    const int positions = tried.loops - 2;
    *at = -1;
    if (positions < 0 || tried.loop[positions].over != SP_OVER_SEGMENT ||
        !sp_special_in_result(s, &tried, tried.loop[positions].digit.index) ||
        jam_refused(s, &tried, positions))
        return SPARTA_OK;
    *apart = !apart_refused(s, &tried, positions + 1);
    for (*at = 0; strcmp(n->loop[*at].name, tried.loop[positions].name);) ++*at;
    return SPARTA_OK;
}

/* Lanes of a sum, innermost. */
static sparta_status say_sum(const sp_special *s, const sp_special_nest *n, int vector, sp_target target,
                             sp_text *out)
{
    const char *k = n->loop[vector].name;
    bool apart = false;
    int at;
    SP_TRY(out->status);
    SP_TRY(find_together(s, n, vector, sp_text_str(out), &at, &apart));
    sp_text_printf(out, "; vectorize(%s,%d)", k,
                   vectors_at_once(s, n, vector, target, at < 0 ? 2 : 2 * TOGETHER));
    if (at >= 0 && apart) sp_text_printf(out, "; precompute(%s)", k);
    if (at >= 0) sp_text_printf(out, "; unroll(%s,%d)", n->loop[at].name, TOGETHER);
    return out->status;
}

static sparta_status say_default(const sp_special *s, const sp_special_nest *n, sp_target target,
                                 sp_text *out)
{
    const int vector = best_vector(s, n);
    bool done = false;
    if (vector < 0) say_tiles(s, n, out, &done);
    if (!done) say_columns(s, n, vector, target, out, &done);
    if (!done) say_strips(s, n, vector, target, out, &done);
    if (!done && vector >= 0 && on_diagonal(s, n, n->loop[vector].digit.index)) {
        done = true;
        sp_text_printf(out, "vectorize(%s,%d)", n->loop[vector].name,
                       vectors_at_once(s, n, vector, target, 4));
    }
    if (done) return say_threads(s, n, out);
    const bool along = vector >= 0 && goes_first(s, n, vector);
    bool unrolled[SP_SPECIAL_LOOPS] = {false};
    int64_t rows = 1, copies = 1;
    for (int i = n->loops - 1; i >= 0 && vector >= 0 && along; i--) {
        const bool result = sp_special_in_result(s, n, n->loop[i].digit.index);
        const int64_t extent = short_loop(&n->loop[i]) && i != vector && movable(s, n, i) &&
                                       !on_diagonal(s, n, n->loop[i].digit.index)
                                   ? sp_special_extent(n->loop[i].digit)
                                   : 0;
        if (!extent || copies * extent > 64 || (result && rows * extent > 8)) continue;
        unrolled[i] = true;
        copies *= extent;
        if (result) rows *= extent;
    }
    ordering o = {.s = s, .n = n, .out = out};
    for (int i = 0; i < n->loops; i++) o.taken[i] = unrolled[i] || i == vector;
    /* Parts of the vector's index first, then it, so that everything inside works on one tile of columns. */
    for (int i = 0; i < n->loops && along; i++)
        if (i != vector && !unrolled[i] && n->loop[i].over == SP_OVER_COUNT &&
            n->loop[i].digit.index == n->loop[vector].digit.index)
            say(&o, i);
    if (along) say(&o, vector);
    for (int i = 0; i < n->loops && vector < 0; i++)
        if (!o.taken[i] && stands_outside(s, n, i)) say(&o, i);
    /* The ends of diagonals that the result has: what the diagonals have for one of them is summed in registers. */
    for (int i = 0; i < n->loops; i++)
        if (!o.taken[i] && n->loop[i].over == SP_OVER_COUNT && on_diagonal(s, n, n->loop[i].digit.index) &&
            sp_special_in_result(s, n, n->loop[i].digit.index))
            say(&o, i);
    for (int i = 0; i < n->loops; i++)
        if (!o.taken[i]) say(&o, i);
    if (vector >= 0 && !along) say(&o, vector);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n->loops; i++)
            if (unrolled[i] && sp_special_in_result(s, n, n->loop[i].digit.index) == pass) say(&o, i);
    if (o.count) sp_text_printf(out, ")");
    if (along)
        sp_text_printf(out, "; vectorize(%s,%d)", n->loop[vector].name,
                       vectors_at_once(s, n, vector, target, (int)rows));
    else if (vector >= 0)
        SP_TRY(say_sum(s, n, vector, target, out));
    else
        SP_TRY(say_turns(s, n, target, out));
    for (int i = n->loops - 1; i >= 0; i--)
        if (unrolled[i] && sp_special_in_result(s, n, n->loop[i].digit.index))
            sp_text_printf(out, "; unroll(%s)", n->loop[i].name);
    for (int i = n->loops - 1; i >= 0; i--)
        if (unrolled[i] && !sp_special_in_result(s, n, n->loop[i].digit.index))
            sp_text_printf(out, "; unroll(%s)", n->loop[i].name);
    return say_threads(s, n, out);
}

sparta_status sp_special_default(const sp_special *s, const sp_special_nest *n, sp_target target,
                                 sp_text *out)
{
    sp_text own;
    sp_text_init(&own, s->cx);
    const sparta_status status = say_default(s, n, target, &own);
    if (!status) sp_text_printf(out, "%s", sp_text_str(&own));
    sp_text_free(&own);
    return status ? status : out->status;
}

static sparta_status apply_default(sp_special *s, sp_special_nest *n, sp_target target)
{
    sp_text text;
    sp_text_init(&text, s->cx);
    sparta_status status = sp_special_default(s, n, target, &text);
    if (!status) status = sp_special_apply(s, n, sp_text_str(&text));
    sp_text_free(&text);
    return status;
}

/* "2:" or "*:" at p; the nest, or -1 for all. */
static bool reads_nest(const char *p, int *nest, size_t *length)
{
    size_t n = 0;
    int64_t v = 0;
    while (p[n] >= '0' && p[n] <= '9' && n < 6) v = v * 10 + (p[n++] - '0');
    if (!n && *p == '*') n = 1, v = -1;
    if (!n || p[n] != ':') return false;
    *nest = (int)v;
    *length = n + 1;
    return true;
}

/* The text with blanks in place of what is for other nests, so that places in messages stay. */
static sparta_status text_for(sp_special *s, const char *text, int nest, char *out, bool *said, bool *named)
{
    int who = -1;
    *said = *named = false;
    for (size_t i = 0; (out[i] = text[i]);) {
        size_t n = 0;
        if (reads_nest(text + i, &who, &n)) {
            *named |= who >= 0;
            if (who >= s->nests)
                return sp_fail(s->cx, SPARTA_E_USAGE, "schedule:%ld: there is no nest %d; there are %d",
                               (long)i + 1, who, s->nests);
            memset(out + i, ' ', n);
            i += n;
            continue;
        }
        while (text[i + n] && !strchr(" \n\t;", text[i + n])) n++;
        if (!n) n = 1;
        const bool mine = who < 0 || who == nest;
        memcpy(out + i, text + i, n);
        if (!mine) memset(out + i, ' ', n);
        *said |= mine && !strchr(" \n\t;", text[i]);
        i += n;
    }
    return SPARTA_OK;
}

static sparta_status apply_own(sp_special *s, int nest, const char *text, sp_target target)
{
    bool said, named;
    char *own = sp_arena_array(s->arena, strlen(text) + 1, 1);
    SP_NEED(s->cx, own);
    SP_TRY(text_for(s, text, nest, own, &said, &named));
    return named && !said ? apply_default(s, s->nest[nest], target) : sp_special_apply(s, s->nest[nest], own);
}

sparta_status sp_special_schedule(sp_special *s, const char *text, sp_target target)
{
    for (int i = 0; i < s->nests; i++)
        SP_TRY(text ? apply_own(s, i, text, target) : apply_default(s, s->nest[i], target));
    return SPARTA_OK;
}
