/* Primitives: each is checked when it is applied, and changes the loops of one nest; one that is refused leaves them as they were.
 *
 * Whether a loop may be what is asked is in refused.c; here is what holds of all loops together (check_order), what each primitive changes, and the texts that
 * name them. A nest that is told nothing gets the text of its default (default.c). */
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

/* ------------------------------------------------------------------ orders */
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
            (sp_special_cached(w->n, u) < 0 && !sp_special_on_diagonal(w->s, w->n, l->digit.index)))
            continue;
        refused = sp_special_vector_refused(w->s, w->n, at, why);
        if (refused) REFUSE(w, "%s would be in vectors, and %s", l->name, refused);
    }
    return SPARTA_OK;
}

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
        const char *jam = l->together ? sp_special_jam_refused(w->s, n, i) : NULL;
        if (jam) REFUSE(w, "%s goes over several positions at a time, and %s", l->name, jam);
        const char *apart = l->apart ? sp_special_apart_refused(w->s, n, i) : NULL;
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

/* ------------------------------------------------------------------ sums apart */
static sparta_status apply_precompute(work *w)
{
    int at;
    SP_TRY(find_loop(w, w->step->arg[0], &at));
    const char *refused = sp_special_apart_refused(w->s, w->n, at);
    for (int i = 0; i < w->n->loops && !refused; i++)
        if (w->n->loop[i].apart) refused = "another sum is computed first already";
    if (refused) REFUSE(w, "%s", refused);
    w->n->loop[at].apart = true;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ tiles */
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

/* ------------------------------------------------------------------ cutting */
/* Lanes along a diagonal go from one of its ends to the other, wherever it lies: no loop goes over pieces. */
static sparta_status check_slides(const work *w)
{
    for (int i = 0; i < w->n->loops; i++)
        if (w->n->loop[i].bind == SP_BIND_VECTOR &&
            sp_special_on_diagonal(w->s, w->n, w->n->loop[i].digit.index))
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
    if (sp_special_has_bits(w->n, at))
        REFUSE(w, "bits are found one after the other, and have no positions to cut");
    if (l->bind != SP_BIND_SERIAL || l->threads || l->positions) REFUSE(w, "%s is bound already", l->name);
    if (l->range) REFUSE(w, "%s goes over one range at a time", l->name);
    SP_TRY(new_name(w, t->arg[1], at));
    l->positions = true;
    memcpy(l->name, t->arg[1], 8);
    return SPARTA_OK;
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
        if (l->range || sp_special_counts_ranges(l))
            REFUSE(w, "%s goes over ranges, or counts them", l->name);
        for (int p = 0; p < n->loops; p++)
            if (sp_special_cuts(n, p, k)) REFUSE(w, "%s is cut by %s already", l->name, n->loop[p].name);
    }
    if (i.over != SP_OVER_COUNT || (j.over != SP_OVER_COUNT && j.over != SP_OVER_SEGMENT))
        REFUSE(w, "it takes a loop over an index, and one over another or over positions inside of it");
    if (j.over == SP_OVER_SEGMENT) {
        const char *refused = sp_special_rows_refused(w->s, n, &i, &j);
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
    if (sp_special_counts_ranges(&n->loop[at])) REFUSE(w, "%s counts ranges", t->arg[0]);
    if (n->loop[at].bind != SP_BIND_SERIAL || n->loop[at].threads || n->loop[at].apart || n->loop[at].caches)
        REFUSE(w, "%s is bound already; split it before", t->arg[0]);
    if (n->loop[at].over == SP_OVER_PIECES || n->loop[at].positions) return split_positions(w, at, by);
    const bool ranges = sp_special_has_ranges(n, at);
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

/* ------------------------------------------------------------------ lanes and copies */
static sparta_status gather_positions(work *w, int at)
{
    sp_special_loop *l = &w->n->loop[at];
    int64_t vectors = 1;
    const char *refused = sp_special_gather_refused(w->s, w->n, at);
    if (refused) REFUSE(w, "%s", refused);
    if (w->step->n > 1) SP_TRY(number(w, w->step->arg[1], 1, SP_SPECIAL_VECTORS, &vectors));
    if (vectors > 1 && sp_special_has_bits(w->n, at))
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
    const char *refused = sp_special_vector_refused(w->s, w->n, at, why);
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
    const char *refused = sp_special_jam_refused(w->s, w->n, at);
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
    const char *refused = sp_special_turns_refused(w->s, w->n, at);
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
    if (sp_special_on_diagonal(w->s, w->n, l->digit.index)) REFUSE(w, "a diagonal depends on it");
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

/* ------------------------------------------------------------------ threads */
static sparta_status apply_threads(work *w)
{
    char why[160];
    int at;
    SP_TRY(find_loop(w, w->step->arg[0], &at));
    if (w->step->n > 1 && strcmp(w->step->arg[1], "temporaries"))
        REFUSE(w, "'%s' is not known; say threads(%s) or threads(%s,temporaries)", w->step->arg[1],
               w->step->arg[0], w->step->arg[0]);
    const char *refused = sp_special_threads_refused(w->s, w->n, at, why);
    const bool resolved = refused && w->step->n > 1 && !sp_special_cut_refused(w->n, at);
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
    const char *refused = sp_special_join_refused(w->s, leader, number, why);
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

/* ------------------------------------------------------------------ nests */
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
