/* The default schedule of a nest: what is good without tuning, as a text of primitives that is applied as any other.
 *
 *     moves alone       say_tiles     16 at a time, so that neither side leaves the lines of the cache that are at hand
 *     stored columns    say_columns   as many results at a time as stay next to the core
 *     gathered rows     say_strips    a strip of the matrix at a time, copied first, where all of it does not fit the L2 cache
 *     diagonals         lanes along them
 *     anything else     say_order     lanes of the result outermost, short loops of blocks written out; without lanes, several positions at a time
 *
 * Then the loop that threads share. What may be done at all is asked of refused.c, of the nest with the text so far applied where it matters. */
#include "special/inside.h"
#include "special/known.h"
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ which loops */
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
        if (sp_special_vector_refused(s, n, i, why)) continue;
        if (!goes_first(s, n, i) && !movable(s, n, i)) continue;
        const int64_t extent = sp_special_extent(n->loop[i].digit);
        int uses = 0;
        for (int u = 0; u < n->uses - 1; u++) uses += sp_special_uses(s, &n->use[u], n->loop[i].digit.index);
        const int rank = sp_special_on_diagonal(s, n, n->loop[i].digit.index)
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

/* ------------------------------------------------------------------ words of the text */
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
        if (sp_special_threads_refused(s, n, i, why)) continue;
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

/* ------------------------------------------------------------------ particular nests */
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
        else if (sp_special_has_ranges(n, i) && result && *row < 0)
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

/* Where stored positions say which rows of a matrix are read, and that matrix does not fit the L2 cache but half a strip of it does, strip after strip, copied first: rows
 * of a strip are two lines of the cache side by side, and each is read often enough to be worth the copy. Strips of one line would fit better, and are slower by half:
 * an element then costs more than what it reads. *done false: it is something else. */
enum { STRIP = 32, READS = 16, SHARED_STRIPS = 8 };

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
    int64_t rows = 0;
    double reads = 0;
    *done = false;
    if (vector < 0 || !goes_first(s, n, vector) || !plain_loops(n)) return;
    const int matrix = gathered_matrix(s, n, vector, &rows, &reads);
    const int64_t columns = s->index[n->loop[vector].digit.index].size;
    if (matrix < 0 || rows <= 0 || reads < READS || columns <= SP_MAX(STRIP, l2 / rows)) return;
    for (int i = 0; i < 2; i++) snprintf(half[i], sizeof half[i], "%.8s%d", k, i);
    if (STRIP / 2 > l2 / rows || !name_free(s, n, half[0]) || !name_free(s, n, half[1])) return;
    *done = true;
    sp_text_printf(out, "split(%s,%s,%s,%d); reorder(%s,%s", k, half[0], half[1], STRIP, half[0], half[1]);
    for (int i = 0; i < n->loops; i++)
        if (i != vector) sp_text_printf(out, ",%s", n->loop[i].name);
    sp_text_printf(out, "); vectorize(%s,%d); cache(%s,%s,scratch)", half[1], STRIP / lanes_of(target),
                   s->operand[n->use[matrix].operand].name, half[0]);
    /* Threads share strips where there are many, else rows, and each then copies all strips. */
    int shared = 0;
    while (shared < n->loops && (shared == vector || n->loop[shared].over != SP_OVER_COUNT ||
                                 !sp_special_in_result(s, n, n->loop[shared].digit.index)))
        shared++;
    if (shared < n->loops && columns < SHARED_STRIPS * STRIP)
        sp_text_printf(out, "; threads(%s)", n->loop[shared].name);
}

/* ------------------------------------------------------------------ any nest */
/* Of positions that are the innermost loop, several at a time: as lanes, which AVX-512 gathers and AVX2 loads one by one; with the 4 lanes of plain C that gains
 * nothing. Elements of bits get to their lanes by an instruction of AVX-512. */
static sparta_status say_turns(const sp_special *s, const sp_special_nest *n, sp_target target, sp_text *out)
{
    sp_special_nest tried = *n;
    sp_special unchanged = *s;
    SP_TRY(out->status);
    SP_TRY(sp_special_apply(&unchanged, &tried, sp_text_str(out)));
    const int last = tried.loops - 1;
    const bool bits = last >= 0 && sp_special_has_bits(&tried, last);
    if (last >= 0 && (target == SP_TARGET_AVX512 || (target == SP_TARGET_AVX2 && !bits)) &&
        !sp_special_gather_refused(s, &tried, last))
        sp_text_printf(out, bits ? "; vectorize(%s)" : "; vectorize(%s,2)", tried.loop[last].name);
    else if (last >= 0 && !sp_special_turns_refused(s, &tried, last))
        sp_text_printf(out, "; unroll(%s,4)", tried.loop[last].name);
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
        sp_special_jam_refused(s, &tried, positions))
        return SPARTA_OK;
    *apart = !sp_special_apart_refused(s, &tried, positions + 1);
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

/* Short loops of blocks that are written out, inside of lanes of the result: which they are, and how many sums they make. */
static int copied(const sp_special *s, const sp_special_nest *n, int vector, bool out[SP_SPECIAL_LOOPS])
{
    int64_t rows = 1, copies = 1;
    for (int i = n->loops - 1; i >= 0; i--) {
        const bool result = sp_special_in_result(s, n, n->loop[i].digit.index);
        const int64_t extent = short_loop(&n->loop[i]) && i != vector && movable(s, n, i) &&
                                       !sp_special_on_diagonal(s, n, n->loop[i].digit.index)
                                   ? sp_special_extent(n->loop[i].digit)
                                   : 0;
        if (!extent || copies * extent > 64 || (result && rows * extent > 8)) continue;
        out[i] = true;
        copies *= extent;
        if (result) rows *= extent;
    }
    return (int)rows;
}

/* All loops in their order: lanes of the result (`along`) outside, those of a sum inside, copies innermost. */
static void say_order(const sp_special *s, const sp_special_nest *n, int vector, bool along,
                      const bool unrolled[SP_SPECIAL_LOOPS], sp_text *out)
{
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
        if (!o.taken[i] && n->loop[i].over == SP_OVER_COUNT &&
            sp_special_on_diagonal(s, n, n->loop[i].digit.index) &&
            sp_special_in_result(s, n, n->loop[i].digit.index))
            say(&o, i);
    for (int i = 0; i < n->loops; i++)
        if (!o.taken[i]) say(&o, i);
    if (vector >= 0 && !along) say(&o, vector);
    for (int result = 0; result < 2; result++)
        for (int i = 0; i < n->loops; i++)
            if (unrolled[i] && sp_special_in_result(s, n, n->loop[i].digit.index) == result) say(&o, i);
    if (o.count) sp_text_printf(out, ")");
}

static sparta_status say_any(const sp_special *s, const sp_special_nest *n, int vector, sp_target target,
                             sp_text *out)
{
    const bool along = vector >= 0 && goes_first(s, n, vector);
    bool unrolled[SP_SPECIAL_LOOPS] = {false};
    const int rows = along ? copied(s, n, vector, unrolled) : 1;
    say_order(s, n, vector, along, unrolled, out);
    if (vector < 0) return say_turns(s, n, target, out);
    if (!along) return say_sum(s, n, vector, target, out);
    sp_text_printf(out, "; vectorize(%s,%d)", n->loop[vector].name,
                   vectors_at_once(s, n, vector, target, rows));
    for (int result = 1; result >= 0; result--)
        for (int i = n->loops - 1; i >= 0; i--)
            if (unrolled[i] && sp_special_in_result(s, n, n->loop[i].digit.index) == result)
                sp_text_printf(out, "; unroll(%s)", n->loop[i].name);
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
    if (!done && vector >= 0 && sp_special_on_diagonal(s, n, n->loop[vector].digit.index)) {
        done = true;
        sp_text_printf(out, "vectorize(%s,%d)", n->loop[vector].name,
                       vectors_at_once(s, n, vector, target, 4));
    }
    if (!done) SP_TRY(say_any(s, n, vector, target, out));
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
