/* One row of a matrix product, in double: the heart of MatMul, Gemm, Linear and Attention.
 *
 *     acc[j] = sum over k of x[k] b[k, j]         x (K)   b (K, N), any strides: a transposed view is as good
 * acc (N)
 */
#ifndef SP_BUILTIN_PRODUCT_H
#define SP_BUILTIN_PRODUCT_H

#include "builtin/view.h"

typedef struct sp_matrix {
    sparta_dtype dtype;
    const void *data;
    int64_t rows, cols;
    int64_t row, col; /* strides in elements */
} sp_matrix;

/* Of the last two dims, at index 0 of the others. */
sp_matrix sp_matrix_of(const sparta_tensor *t, bool transposed);
void sp_matrix_row(const sp_matrix *a, int64_t i, double *x); /* x (cols) = row i */
void sp_product_row(const double *x, const sp_matrix *b, double *acc);
/* out[i, j] = sum over k of a[i, k] b[k, j]; integers wrap. */
sparta_status sp_product(sparta_ctx *cx, const sp_matrix *a, const sp_matrix *b,
                         const sparta_tensor *out) SP_MUST;

#endif
