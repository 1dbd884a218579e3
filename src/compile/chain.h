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
#ifndef SPARTA_COMPILE_CHAIN_H
#define SPARTA_COMPILE_CHAIN_H

#include "compile/match.h"

#define SPARTA_CHAIN_ATOMS 16

typedef struct sparta_chain {
    sparta_value *base;
    int steps; /* nodes between the base and the value */
    int n;
    const sparta_expr *size[SPARTA_CHAIN_ATOMS]; /* of each atom, in the base's order */
    int order[SPARTA_CHAIN_ATOMS];               /* atoms in the order of the view */
    sparta_dims dims;                            /* of the view */
    int end[SPARTA_RANK];                        /* dim i is order[end[i-1] .. end[i]) */
} sparta_chain;

bool sparta_chain_is_step(const sparta_node *n); /* is the node one of the chain's operators? */
/* v itself, as a view of itself. False when a dim is not known or is 0. */
bool sparta_chain_begin(sparta_value *v, sparta_chain *out);
/* One more step: the view of the node's output, given the view of its input. False: it cannot be followed
 * (the view is spoilt). */
bool sparta_chain_step(sparta_match *m, sparta_chain *view, const sparta_node *n);
bool sparta_chain_reshape(sparta_match *m, sparta_chain *view, const sparta_dims *dims);
/* v as a view of the value where its chain begins, as far up as can be followed (at most 8 nodes). */
bool sparta_chain_of(sparta_match *m, sparta_value *v, sparta_chain *out);
bool sparta_chain_is_base(const sparta_chain *view); /* nothing was rearranged */
/* Turn n, whose output has the dims of the view, into the end of the shortest chain, when that is shorter
 * than `steps`. */
sparta_status sparta_chain_write(sparta_match *m, const sparta_chain *view, sparta_node *n,
                                 bool *shorter) SPARTA_MUST;

#endif
