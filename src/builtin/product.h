/* One row of a matrix product, in double: the heart of MatMul, Gemm, Linear and Attention.
 *
 *     acc[j] = sum over k of x[k] b[k, j]         x (K)   b (K, N), any strides: a transposed view is as good
 * acc (N)
 */
#ifndef SPARTA_BUILTIN_PRODUCT_H
#define SPARTA_BUILTIN_PRODUCT_H

#include "builtin/view.h"

typedef struct sparta_matrix {
    sparta_dtype dtype;
    const void *data;
    int64_t rows, cols;
    int64_t row, col; /* strides in elements */
} sparta_matrix;

sparta_matrix sparta_matrix_of(const sparta_tensor *t,
                               bool transposed); /* of the last two dims, at index 0 of the others */
void sparta_matrix_row(const sparta_matrix *a, int64_t i, double *x); /* x (cols) = row i */
void sparta_product_row(const double *x, const sparta_matrix *b, double *acc);
/* out[i, j] = sum over k of a[i, k] b[k, j]; integers wrap. */
sparta_status sparta_product(sparta_ctx *cx, const sparta_matrix *a, const sparta_matrix *b,
                             const sparta_tensor *out) SPARTA_MUST;

#endif
