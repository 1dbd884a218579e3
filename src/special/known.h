/* What follows from the loops that are open (lower.c); inside of room special. */
#ifndef SP_SPECIAL_KNOWN_H
#define SP_SPECIAL_KNOWN_H

#include "special/special.h"

typedef struct sp_special_known {
    bool index[SP_SPECIAL_INDICES];
    int levels[SP_SPECIAL_ACCESSES]; /* how many levels of each use have a position */
} sp_special_known;
void sp_special_known_with(const sp_special *s, const sp_special_nest *n, const bool *bound,
                           sp_special_known *k);
/* May the loop be opened inside of these? */
bool sp_special_opens(const sp_special *s, const sp_special_nest *n, int loop, const bool *bound);
/* The loop over positions of a level of a use; -1: none. */
int sp_special_loop_of(const sp_special_nest *n, int use, int level);
/* The loops, of those bound, that make up this part of an index, the least first; 0: they do not. */
int sp_special_digit_parts(const sp_special_nest *n, sp_special_digit d, const bool *bound,
                           int out[SP_SPECIAL_LOOPS]);
/* Of a level dim-other or dim+other: the two indices. */
bool sp_special_diagonal(const sp_special *s, const sp_special_use *u, int level, int *dim, int *other);

#endif
