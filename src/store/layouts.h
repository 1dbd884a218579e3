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
#ifndef SP_STORE_LAYOUTS_H
#define SP_STORE_LAYOUTS_H

#include "store/store.h"

typedef enum { SP_LAYOUT_CSR, SP_LAYOUT_CSC, SP_LAYOUT_BSR, SP_LAYOUT_BSC, SP_LAYOUT_COO } sp_layout_kind;

typedef struct sp_layout {
    sp_layout_kind kind;
    int64_t dim[2], block[2]; /* block: 1, 1 unless bsr or bsc */
    bool unordered;           /* indices of a row in any order, and again: SciPy's before sum_duplicates */
    sparta_tensor offsets;    /* (rows + 1), of blocks; coo has none */
    sparta_tensor indices;    /* (n); coo: (2, n), or rank 0 when rows and columns lie apart */
    sparta_tensor row, col;   /* coo: (n) each, any stride */
    /* (n) or (n, b, c), of a pattern bools; one of single elements has none: rank 0, data NULL. */
    sparta_tensor values;
} sp_layout;

typedef enum { SP_LAYOUT_SCIPY, SP_LAYOUT_TORCH } sp_layout_for;

/* Views of a packed matrix (verified, if it came from outside), valid as long as it. For PyTorch indices ascend
 * without repetition, coo is i64 and its indices are one array: rows and columns beside each other (aos), or in one
 * block of memory one after the other. */
sparta_status sp_layout_of_packed(sparta_ctx *cx, const sp_packed *p, sp_layout_for who,
                                  sp_layout *out) SP_MUST;
/* A packed matrix that looks at the arrays of a layout, verified: valid as long as they are, not to be freed. coo is
 * given as indices, or as row and col; pos is where its two positions live. Arrays with gaps are E_UNSUPPORTED. */
sparta_status sp_packed_of_layout(sparta_ctx *cx, const sp_layout *l, int64_t pos[2], sp_packed *out) SP_MUST;

#endif
