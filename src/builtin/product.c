/* The products of product.h. Two layouts of b have their own f32 loop, since weights are large; the others go
 * element by element. No product with zero is skipped: 0 x Inf is NaN. */
#include "builtin/product.h"
#include <string.h>

sp_matrix sp_matrix_of(const sparta_tensor *t, bool transposed)
{
    int r = t->rank - 2, c = t->rank - 1;
    if (transposed) return (sp_matrix){t->dtype, t->data, t->dim[c], t->dim[r], t->stride[c], t->stride[r]};
    return (sp_matrix){t->dtype, t->data, t->dim[r], t->dim[c], t->stride[r], t->stride[c]};
}

void sp_matrix_row(const sp_matrix *a, int64_t i, double *x)
{
    for (int64_t k = 0; k < a->cols; k++) x[k] = sp_element_get(a->dtype, a->data, i * a->row + k * a->col);
}

/* b's rows lie contiguous: add x[k] times row k, four rows at once to touch acc less often. */
static void add_rows(const double *x, const sp_matrix *b, double *acc)
{
    int64_t k = 0, n = b->cols;
    for (; k + 4 <= b->rows; k += 4) {
        const float *r0 = (const float *)b->data + k * b->row, *r1 = r0 + b->row, *r2 = r1 + b->row,
                    *r3 = r2 + b->row;
        const double x0 = x[k], x1 = x[k + 1], x2 = x[k + 2], x3 = x[k + 3];
        for (int64_t j = 0; j < n; j++) acc[j] += (x0 * r0[j] + x1 * r1[j]) + (x2 * r2[j] + x3 * r3[j]);
    }
    for (; k < b->rows; k++) {
        const float *r = (const float *)b->data + k * b->row;
        const double x0 = x[k];
        for (int64_t j = 0; j < n; j++) acc[j] += x0 * r[j];
    }
}

/* b's columns lie contiguous: one dot product each, in four partial sums that do not wait for each other. */
static double dot(const double *x, const float *w, int64_t n)
{
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    int64_t k = 0;
    for (; k + 4 <= n; k += 4) {
        s0 += x[k] * w[k];
        s1 += x[k + 1] * w[k + 1];
        s2 += x[k + 2] * w[k + 2];
        s3 += x[k + 3] * w[k + 3];
    }
    for (; k < n; k++) s0 += x[k] * w[k];
    return (s0 + s1) + (s2 + s3);
}

void sp_product_row(const double *x, const sp_matrix *b, double *acc)
{
    for (int64_t j = 0; j < b->cols; j++) acc[j] = 0;
    if (b->dtype == SPARTA_F32 && b->col == 1) {
        add_rows(x, b, acc);
        return;
    }
    for (int64_t j = 0; j < b->cols; j++) {
        if (b->dtype == SPARTA_F32 && b->row == 1)
            acc[j] = dot(x, (const float *)b->data + j * b->col, b->rows);
        else
            for (int64_t k = 0; k < b->rows; k++)
                acc[j] += x[k] * sp_element_get(b->dtype, b->data, k * b->row + j * b->col);
    }
}

static void product_integer(const sp_matrix *a, const sp_matrix *b, const sparta_tensor *out)
{
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < b->cols; j++) {
            uint64_t sum = 0;
            for (int64_t k = 0; k < b->rows; k++)
                sum += (uint64_t)sp_element_get_int(a->dtype, a->data, i * a->row + k * a->col) *
                       (uint64_t)sp_element_get_int(b->dtype, b->data, k * b->row + j * b->col);
            sp_element_set_int(out->dtype, out->data, i * out->stride[0] + j * out->stride[1], (int64_t)sum);
        }
}

sparta_status sp_product(sparta_ctx *cx, const sp_matrix *a, const sp_matrix *b, const sparta_tensor *out)
{
    if (!sp_dtype_is_float(out->dtype)) {
        product_integer(a, b, out);
        return SPARTA_OK;
    }
    double *x = sp_alloc_array(cx, (size_t)a->cols + (size_t)b->cols, sizeof *x), *acc = x + a->cols;
    SP_NEED(cx, x);
    sparta_status status = SPARTA_OK;
    for (int64_t i = 0; i < a->rows && status == SPARTA_OK; i++) {
        sp_matrix_row(a, i, x);
        sp_product_row(x, b, acc);
        for (int64_t j = 0; j < b->cols; j++)
            sp_element_set(out->dtype, out->data, i * out->stride[0] + j * out->stride[1], acc[j]);
        status = sp_check_cancel(cx);
    }
    sp_free(cx, x);
    return status;
}
