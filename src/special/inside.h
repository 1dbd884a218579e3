/* What the files of this room share. */
#ifndef SP_SPECIAL_INSIDE_H
#define SP_SPECIAL_INSIDE_H

#include "format/level.h"
#include "special/special.h"

/* Formats fit their accesses, results have one that can be written; arrays are numbered. */
sparta_status sp_special_stored(sp_special *s) SP_MUST;
/* Leaves of an operand's format: the parts of a sum, or itself. */
const sp_format *sp_special_leaf(const sp_special_operand *o, int leaf);
/* Which part of an index a level of a format binds; index -1: a diagonal. `access` says which index each dimension is. */
sp_special_digit sp_special_level_digit(const sp_special *s, const sp_special_use *u, int level);
/* The index that an axis is, alone and as it is; -1: it is a sum. */
int sp_special_plain(const sp_nest_axis *x);
static inline bool sp_special_same(sp_special_digit a, sp_special_digit b)
{
    return a.index == b.index && a.modulus == b.modulus && a.weight == b.weight;
}
/* How many values a part has; 0: as many as the size of its index says. */
static inline int64_t sp_special_extent(sp_special_digit d)
{
    return d.modulus / d.weight;
}
/* Where the arrays of a part of an operand begin, and the sizes of its levels. */
static inline int sp_special_array(const sp_special_operand *o, int leaf)
{
    return o->array + leaf * (1 + 2 * SP_LEVELS);
}
static inline int sp_special_sizes(const sp_special_operand *o, int leaf)
{
    return SP_SPECIAL_INDICES + o->level + leaf * SP_LEVELS;
}
/* Is it one part of several? */
static inline bool sp_special_has_parts(const sp_special *s, const sp_special_use *u)
{
    return u->leaf >= 0 && s->operand[u->operand].leaves > 1;
}
/* Does a loop bind a part of an index? */
static inline bool sp_special_binds(const sp_special_loop *l)
{
    return l->over == SP_OVER_COUNT || l->over == SP_OVER_SEGMENT;
}
/* The loop over pieces that says what loop `at` goes over, the nearest outside of it; -1: none. */
int sp_special_cutter(const sp_special_nest *n, int at);
bool sp_special_cuts(const sp_special_nest *n, int pieces, int loop);
/* How many steps a loop over an index has; 0: as many as sizes say. */
int64_t sp_special_steps(const sp_special_nest *n, const sp_special_loop *l);
/* The factors of the term that are known outside of a loop, or those that are not; returns how many. */
int sp_special_factors(const sp_special *s, const sp_special_nest *n, int loop, bool outside,
                       int node[SP_SPECIAL_NODES]);
int sp_special_levels(const sp_special *s, const sp_special_use *u); /* row-major: its rank */
bool sp_special_level_dense(const sp_special_use *u, int level);     /* its position is computed */
bool sp_special_in_result(const sp_special *s, const sp_special_nest *n, int index);
bool sp_special_has(const sp_special *s, int access, int index); /* an access an index, alone or in a sum */
bool sp_special_uses(const sp_special *s, const sp_special_use *u, int index);
/* Is its element searched for wherever the loops are, and 0 where there is none? */
static inline bool sp_special_looked_up(const sp_special_use *u)
{
    return u->sparse && !u->needed && u->follows < 0;
}
/* Have two accesses the same plain indices? */
bool sp_special_same_axes(const sp_special *s, int a, int b);
/* The operand whose pattern an operand has: itself, or what it is like. */
static inline int sp_special_pattern(const sp_special *s, int operand)
{
    return s->operand[operand].like >= 0 ? s->operand[operand].like : operand;
}
static inline const sp_special_use *sp_special_target(const sp_special_nest *n)
{
    return &n->use[n->uses - 1];
}
static inline bool sp_special_counts_ranges(const sp_special_loop *l)
{
    return l->digit.index == SP_SPECIAL_RANGES;
}
/* A loop over positions that is cut into ranges, and the loop that counts them, each from the other; -1: there is none. */
int sp_special_counter(const sp_special_nest *n, int segment);
int sp_special_counted(const sp_special_nest *n, int counter);
/* Does loop `at` go over coordinates that come again, one behind the other, and the next over the one position below each (coo)? Then it goes over runs of equal ones, and
 * the next over the positions of a run. */
bool sp_special_runs(const sp_special_nest *n, int at);
/* The other end of a stored diagonal, j = i + d: where d is known outside of loop `at` over i, lanes along i lie side by side along j as well. -1: there is none, or an
 * operand does not lie so. *diagonal: the loop over diagonals; *ahead: j is i + d, else i - d. */
int sp_special_slides(const sp_special *s, const sp_special_nest *n, int at, int *diagonal, bool *ahead);
/* Does a nest sum over a loop: has the result nothing of what it goes over? */
bool sp_special_summed(const sp_special *s, const sp_special_nest *n, int loop);
/* Is the sum of the loops from `at` on kept in registers, each with a place? The first such `at`. */
int sp_special_sums(const sp_special *s, const sp_special_nest *n);
/* The use whose pattern the result has and in whose positions it is stored: needed, with the same indices; -1: none. */
int sp_special_like(const sp_special *s, const sp_special_nest *n);
/* Which accesses make a node 0 where they have no element: a bit each. */
unsigned sp_special_needs(const sp_special *s, int node);
/* Does a format store zeros where nothing is, so that 0 says so? */
bool sp_special_fills_up(const sp_format *f);
/* Can a search by halves find a coordinate of this level: ascending, each once? */
bool sp_special_ordered(const sp_level *l);
/* Where the name of the operand's use is told apart from others of the same operand: its number among them, 0 the first. */
int sp_special_again(const sp_special_nest *n, int use);

/* ------------------------------------------------------------------ what may be done to a loop (refused.c) */
/* Does it go over bits, which are found one after the other? */
bool sp_special_has_bits(const sp_special_nest *n, int at);
/* A diagonal makes one index from another: all that follows would be in vectors, or unrolled. */
bool sp_special_on_diagonal(const sp_special *s, const sp_special_nest *n, int index);
/* Stored coordinates that ascend can be gone over a range at a time: from where the range before ended, or from a search on. */
bool sp_special_has_ranges(const sp_special_nest *n, int at);
/* The others: NULL, or why not, the text in `why` where there is one. Rows and the positions in them are cut together; */
const char *sp_special_rows_refused(const sp_special *s, const sp_special_nest *n, const sp_special_loop *i,
                                    const sp_special_loop *j);
/* values of a loop over an index are lanes; */
const char *sp_special_vector_refused(const sp_special *s, const sp_special_nest *n, int at, char why[160]);
/* several positions at a time, with a sum each; as lanes; */
const char *sp_special_turns_refused(const sp_special *s, const sp_special_nest *n, int at);
const char *sp_special_gather_refused(const sp_special *s, const sp_special_nest *n, int at);
/* several positions that the result has, with sums of their own in the loop in vectors inside; */
const char *sp_special_jam_refused(const sp_special *s, const sp_special_nest *n, int at);
/* what the loop and those inside of it sum is multiplied by the other factors afterwards; */
const char *sp_special_apart_refused(const sp_special *s, const sp_special_nest *n, int at);
/* the loop is cut into shares, whoever writes what; and no element is written by two; */
const char *sp_special_cut_refused(const sp_special_nest *n, int at);
const char *sp_special_threads_refused(const sp_special *s, const sp_special_nest *n, int at, char why[160]);
/* nest `number` becomes one function with those from `leader` on. */
const char *sp_special_join_refused(const sp_special *s, int leader, int number, char why[160]);

#endif
