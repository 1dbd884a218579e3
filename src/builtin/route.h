/* Which blocks of keys a block of queries goes to: those whose means are most alike. Route and Sparsify of three operands (builtin.h) are made of it.
 *
 *     q  | block 0 | block 1 | ...      means     qm . km        keep = 2: the two largest      list  0 | 0 2
 *     k  | block 0 | block 1 | ...     ------>   (S/b, T/b)     ------------------------>             1 | 1 3
 *
 * Means and their products are taken in double, each sum in the order of its index, so that every program that asks gets the same list for the same
 * numbers. A NaN is more alike than every number, and of equals the first counts. A block of keys that none of the queries sees is taken only where
 * they see none at all. The list ascends, and has -1 behind its last number.
 */
#ifndef SP_BUILTIN_ROUTE_H
#define SP_BUILTIN_ROUTE_H

#include "builtin/builtin.h"

#define SP_ROUTE_HIDDEN (-5000.) /* scores, or what is added to them, that are no more than this */

typedef struct sp_route { /* one head of one item */
    sparta_tensor q, k;   /* (S, E), (T, E), any strides */
    sparta_tensor seen;   /* (S, T): what is added to scores, or these themselves; rank -1: none */
    int64_t left, right;  /* keys that a query sees before and after its place; -1: all */
    int64_t block, keep;
    bool own; /* and block i of keys for block i of queries */
    int64_t room;
    int32_t *list; /* (blocks of queries, room) */
} sp_route;

static inline int64_t sp_route_blocks(int64_t n, int64_t block)
{
    return n / block + (n % block != 0);
}
/* E_SHAPE unless attributes block and keep are at least 1. */
sparta_status sp_route_check(sparta_ctx *cx, const char *op, const sp_attrs *attrs) SP_MUST;
/* Bytes of scratch for one head. */
sparta_status sp_route_scratch(sparta_ctx *cx, const sp_route *r, size_t *out) SP_MUST;
void sp_route_head(const sp_route *r, void *scratch);
/* Does a number of a list count? Those that are no larger than the last one that did (-1 before the first), or none of `blocks`, do not. */
static inline bool sp_route_lists(int32_t number, int64_t blocks, int64_t *last)
{
    if (number <= *last || number >= blocks) return false;
    *last = number;
    return true;
}

#endif
