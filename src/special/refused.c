/* Whether a primitive may be applied to a loop: NULL, or why not.
 *
 * Who applies one refuses with that reason (schedule.c); the default takes the next best way (default.c). The loops are as the primitives before have left them. */
#include "special/inside.h"
#include "special/known.h"
#include "special/tile.h"
#include <stdio.h>

bool sp_special_has_bits(const sp_special_nest *n, int at)
{
    const sp_special_loop *l = &n->loop[at];
    return l->over == SP_OVER_SEGMENT && n->use[l->use].format->level[l->level].kind == SP_LEVEL_BITMAP;
}

bool sp_special_on_diagonal(const sp_special *s, const sp_special_nest *n, int index)
{
    for (int u = 0; u < n->uses; u++)
        for (int k = 0; n->use[u].needed && k < n->use[u].format->n; k++) {
            int dim, other;
            if (sp_special_diagonal(s, &n->use[u], k, &dim, &other) && (dim == index || other == index))
                return true;
        }
    return false;
}

/* ------------------------------------------------------------------ cutting */
bool sp_special_has_ranges(const sp_special_nest *n, int at)
{
    const sp_special_loop *l = &n->loop[at];
    if (l->over != SP_OVER_SEGMENT || l->range || l->digit.modulus || l->digit.weight != 1 ||
        l->digit.index < 0)
        return false;
    const sp_level *v = &n->use[l->use].format->level[l->level];
    return v->kind == SP_LEVEL_COMPRESSED && sp_special_ordered(v) && !v->crd_bits &&
           sp_level_shares(n->use[l->use].format, l->level) == 1;
}

/* Rows, and the positions in them: one array from the first row to the last. */
const char *sp_special_rows_refused(const sp_special *s, const sp_special_nest *n, const sp_special_loop *i,
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

/* ------------------------------------------------------------------ lanes of an index */
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

const char *sp_special_vector_refused(const sp_special *s, const sp_special_nest *n, int at, char why[160])
{
    const sp_special_loop *l = &n->loop[at];
    int diagonal;
    bool ahead;
    if (l->over != SP_OVER_COUNT) return "it goes over stored positions, which are no lanes";
    if (sp_special_counts_ranges(l)) return "it counts ranges";
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
    if (!slides && sp_special_on_diagonal(s, n, l->digit.index)) return "a diagonal depends on it";
    for (int p = 0; p < n->loops; p++)
        if (sp_special_cuts(n, p, at) && (sp_special_same(l->digit, n->loop[p].outer) ||
                                          (l->digit.modulus && n->loop[p].outer.index != l->digit.index)))
            return "a piece may end inside of a vector: of two loops that are cut together the inner one has "
                   "lanes, where it is a whole index";
    return NULL;
}

/* ------------------------------------------------------------------ several positions at a time */
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
    if (sp_special_on_diagonal(s, n, l->digit.index)) return "a diagonal depends on it";
    for (int i = 0; i < n->loops; i++)
        if (n->loop[i].bind == SP_BIND_VECTOR) return "another loop is in vectors, which have sums enough";
    return NULL;
}

const char *sp_special_turns_refused(const sp_special *s, const sp_special_nest *n, int at)
{
    if (sp_special_has_bits(n, at)) return "bits are found one after the other";
    return together_refused(s, n, at);
}

/* Positions as lanes: their values and coordinates lie side by side or are bits, and every other operand is row-major with the coordinate as its last axis. */
const char *sp_special_gather_refused(const sp_special *s, const sp_special_nest *n, int at)
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

/* Several positions of the result at a time: one loop is inside of theirs, in vectors, and summed. */
const char *sp_special_jam_refused(const sp_special *s, const sp_special_nest *n, int at)
{
    const sp_special_loop *l = &n->loop[at], *k = l + 1;
    if (s->statement[n->statement].reduce != SP_NEST_sum) return "the statement takes no sum";
    if (at + 2 != n->loops || k->bind != SP_BIND_VECTOR || sp_special_in_result(s, n, k->digit.index) ||
        l->digit.index < 0)
        return "its positions are the result's, and what is inside of it is not one sum, in vectors";
    if (l->range || l->positions || l->threads || l->caches || k->caches || k->threads ||
        sp_special_cutter(n, at) >= 0 || sp_special_runs(n, at))
        return "it is cut, shared or has a tile, or its coordinates come again";
    if (sp_special_has_bits(n, at)) return "bits are found one after the other";
    return NULL;
}

/* ------------------------------------------------------------------ sums apart */
const char *sp_special_apart_refused(const sp_special *s, const sp_special_nest *n, int at)
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

/* ------------------------------------------------------------------ threads */
const char *sp_special_cut_refused(const sp_special_nest *n, int at)
{
    const sp_special_loop *l = &n->loop[at];
    if (sp_special_shares(n)) return "another loop is shared by threads already";
    if (l->bind == SP_BIND_UNROLL) return "it is unrolled";
    if (sp_special_counts_ranges(l)) return "it counts ranges";
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
const char *sp_special_threads_refused(const sp_special *s, const sp_special_nest *n, int at, char why[160])
{
    const sp_special_loop *l = &n->loop[at];
    const char *refused = sp_special_cut_refused(n, at);
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

const char *sp_special_join_refused(const sp_special *s, int leader, int number, char why[160])
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
