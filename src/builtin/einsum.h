/* The equation of Einsum.
 *
 *     "b...i, b...ij -> b...j"       operands: letters name dims, "..." any number of dims that broadcast
 *
 * Every letter, and every dim of the longest "...", is a loop. The loops of the result come first, in its order, then those that
 * are summed over. Without "->" the result has the dims of "..." and then the letters that occur once, in alphabetical order.
 * A letter twice in an operand is its diagonal. "..." that the result does not have is summed over.
 */
#ifndef SP_BUILTIN_EINSUM_H
#define SP_BUILTIN_EINSUM_H

#include "builtin/builtin.h"

#define SP_EINSUM_LOOPS (52 + SPARTA_RANK) /* a-z, A-Z, dims of "..." */

typedef struct sp_einsum {
    int n;                      /* operands */
    int loops, kept;            /* of which the first `kept` are the dims of the result */
    bool wide[SP_EINSUM_LOOPS]; /* of "...": sizes of 1 repeat */
    int (*loop)[SPARTA_RANK];   /* of each operand's dims; from sp_alloc: free with sp_free */
} sp_einsum;

/* rank[i] of operand i. E_FORMAT says where an equation is wrong, E_SHAPE that an operand has another rank than its letters. */
sparta_status sp_einsum_parse(sparta_ctx *cx, const char *equation, int n, const int *rank,
                              sp_einsum *out) SP_MUST;

#endif
