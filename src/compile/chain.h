/* chain: a chain of Reshape, Transpose, Squeeze, Unsqueeze and Flatten as one rearrangement.
 *
 * The elements of the base are cut into atoms, the finest pieces that the chain tells apart, listed in the
 * base's row-major order. The viewed value has the same atoms in another order, put together into other dims:
 *
 *     base   (B, S, 32)       atoms  B S 2 16          Reshape (B,S,2,16), Transpose (0,2,1,3), Reshape (2*B,S,16)
 *     view   (2*B, S, 16)     order  B 2 | S | 16      the dims of the view are groups of atoms
 *
 * Dims of size 1 have no atoms. The chain can then be written in its shortest form, at most Reshape,
 * Transpose, Reshape.
 */
#ifndef SP_COMPILE_CHAIN_H
#define SP_COMPILE_CHAIN_H

#include "compile/match.h"

#define SP_CHAIN_ATOMS 16

typedef struct sp_chain {
    sp_value *base;
    int steps; /* nodes between the base and the value */
    int n;
    const sp_expr *size[SP_CHAIN_ATOMS]; /* of each atom, in the base's order */
    int order[SP_CHAIN_ATOMS];           /* atoms in the order of the view */
    sp_dims dims;                        /* of the view */
    int end[SPARTA_RANK];                /* dim i is order[end[i-1] .. end[i]) */
} sp_chain;

bool sp_chain_is_step(const sp_node *n); /* is the node one of the chain's operators? */
/* v itself, as a view of itself. False when a dim is not known or is 0. */
bool sp_chain_begin(sp_value *v, sp_chain *out);
/* One more step: the view of the node's output, given the view of its input. False: it cannot be followed
 * (the view is spoilt). */
bool sp_chain_step(sp_match *m, sp_chain *view, const sp_node *n);
bool sp_chain_reshape(sp_match *m, sp_chain *view, const sp_dims *dims);
/* v as a view of the value where its chain begins, as far up as can be followed (at most 8 nodes). */
bool sp_chain_of(sp_match *m, sp_value *v, sp_chain *out);
bool sp_chain_is_base(const sp_chain *view); /* nothing was rearranged */
/* Turn n, whose output has the dims of the view, into the end of the shortest chain, when that is shorter
 * than `steps`. */
sparta_status sp_chain_write(sp_match *m, const sp_chain *view, sp_node *n, bool *shorter) SP_MUST;

#endif
