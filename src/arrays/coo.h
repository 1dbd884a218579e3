/* A tensor as its entries: what sparse files hold, and what any storage can be read into.
 *
 *     [ 5 . ]      rank 2, dim {2, 2}, n 2
 *     [ . 7 ]      index[0] = 0 1   index[1] = 0 1   values = 5 7
 *
 * What a reader gives is in row-major order and has no coordinate twice: duplicates of a file are summed, in the
 * order of the file (an integer sum that does not fit is E_RANGE; bools are or-ed). Explicit zeros are entries. A
 * pattern has no values (data NULL). A dense source has no indices: `dense`, and values has the shape of the whole. */
#ifndef SP_ARRAYS_COO_H
#define SP_ARRAYS_COO_H

#include "tensor/tensor.h"

typedef struct sp_coo {
    sparta_ctx *cx;
    bool dense; /* values is row-major (dim[0], dim[1], ...), n its elements, index all NULL */
    int rank;
    int64_t dim[SPARTA_RANK];
    int64_t n;
    int64_t *index[SPARTA_RANK]; /* (n) each */
    sparta_tensor values;        /* (n); data NULL: a pattern */
} sp_coo;
/* Room for n entries: indices and, when `values`, cleared values of that type. */
sparta_status sp_coo_alloc(sparta_ctx *cx, int rank, const int64_t *dim, int64_t n,
                           const sparta_dtype *values, sp_coo *out) SP_MUST;
void sp_coo_free(sp_coo *c); /* one that is all zeros is fine */
/* Check the indices (E_RANGE), sort, sum duplicates. */
sparta_status sp_coo_canonical(sp_coo *c) SP_MUST;

#endif
