/* The equation of Einsum.
 *
 *     "b...i, b...ij -> b...j"       operands: letters name dims, "..." any number of dims that broadcast
 *
 * Every letter, and every dim of the longest "...", is a loop. The loops of the result come first, in its order, then those that
 * are summed over. Without "->" the result has the dims of "..." and then the letters that occur once, in alphabetical order.
 * A letter twice in an operand is its diagonal. "..." that the result does not have is summed over.
 */
#ifndef SPARTA_BUILTIN_EINSUM_H
#define SPARTA_BUILTIN_EINSUM_H

#include "builtin/builtin.h"

#define SPARTA_EINSUM_LOOPS (52 + SPARTA_RANK) /* a-z, A-Z, dims of "..." */

typedef struct sparta_einsum {
    int n;                          /* operands */
    int loops, kept;                /* of which the first `kept` are the dims of the result */
    bool wide[SPARTA_EINSUM_LOOPS]; /* of "...": sizes of 1 repeat */
    int (*loop)[SPARTA_RANK];       /* of each operand's dims; from sparta_alloc: free with sparta_free */
} sparta_einsum;

/* rank[i] of operand i. E_FORMAT says where an equation is wrong, E_SHAPE that an operand has another rank than its letters. */
sparta_status sparta_einsum_parse(sparta_ctx *cx, const char *equation, int n, const int *rank,
                                  sparta_einsum *out) SPARTA_MUST;

#endif
