/* The arrays that PyTorch and SciPy keep sparse matrices in, as views of ours and ours as views of them: no copy.
 *
 *     ours                 SciPy                          PyTorch
 *     csr  pos[1] crd[1]   indptr indices data            crow_indices col_indices values
 *     csc  pos[1] crd[1]   indptr indices data            ccol_indices row_indices values
 *     bsr  pos[1] crd[1]   indptr indices data (n,b,c)    crow_indices col_indices values (n,b,c)
 *     bsc  pos[1] crd[1]                                  ccol_indices row_indices values (n,b,c)
 *     coo  crd[0] crd[1]   row col data                   indices (2,n) values
 *
 * Both want i32 or i64, the same for offsets and indices; where ours are narrower, blocks lie the other way round or do
 * not divide the shape, there is no such view: E_UNSUPPORTED, and the message says what to convert to.
 */
#ifndef SPARTA_FORMAT_LAYOUTS_H
#define SPARTA_FORMAT_LAYOUTS_H

#include "format/format.h"

typedef enum {
    SPARTA_LAYOUT_CSR,
    SPARTA_LAYOUT_CSC,
    SPARTA_LAYOUT_BSR,
    SPARTA_LAYOUT_BSC,
    SPARTA_LAYOUT_COO
} sparta_layout_kind;

typedef struct sparta_layout {
    sparta_layout_kind kind;
    int64_t dim[2], block[2]; /* block: 1, 1 unless bsr or bsc */
    bool unordered;           /* indices of a row in any order, and again: SciPy's before sum_duplicates */
    sparta_tensor offsets;    /* (rows + 1), of blocks; coo has none */
    sparta_tensor indices;    /* (n); coo: (2, n), or rank 0 when rows and columns lie apart */
    sparta_tensor row, col;   /* coo: (n) each, any stride */
    sparta_tensor
        values; /* (n) or (n, b, c), of a pattern bools; one of single elements has none: rank 0, data NULL */
} sparta_layout;

typedef enum { SPARTA_LAYOUT_SCIPY, SPARTA_LAYOUT_TORCH } sparta_layout_for;

/* Views of a packed matrix (verified, if it came from outside), valid as long as it. For PyTorch indices ascend
 * without repetition, coo is i64 and its indices are one array: rows and columns beside each other (aos), or in one
 * block of memory one after the other. */
sparta_status sparta_layout_of_packed(sparta_ctx *cx, const sparta_packed *p, sparta_layout_for who,
                                      sparta_layout *out) SPARTA_MUST;
/* A packed matrix that looks at the arrays of a layout, verified: valid as long as they are, not to be freed. coo is
 * given as indices, or as row and col; pos is where its two positions live. Arrays with gaps are E_UNSUPPORTED. */
sparta_status sparta_packed_of_layout(sparta_ctx *cx, const sparta_layout *l, int64_t pos[2],
                                      sparta_packed *out) SPARTA_MUST;

#endif
