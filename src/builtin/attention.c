/* Attention: for each batch b, head h and query s,
 *
 *     score[t] = scale q[b, s, h] . k[b, t, h] + mask[b, h, s, t]
 *     p = softmax(score)
 *     y[b, s, h] = sum over t of p[t] v[b, t, h]
 *
 * where q[b, s, h] is the h-th piece of E elements of the row, and v[b, t, h] of D. Attributes heads and scale (1 / sqrt E without
 * it). The mask is added and may be absent. A row whose every score is -inf is NaN, as IEEE says; with nan_to_zero=1 a p[t] that is NaN counts
 * as 0. */
#include "builtin/line.h"
#include "builtin/product.h"
#include <math.h>

typedef struct head {             /* one batch and head: matrices and room for one row of each */
    sp_matrix q, k_transposed, v; /* (S, E) (E, T) (T, D) */
    sparta_tensor mask, y;        /* (S, T), rank -1: none; (S, D) */
    double scale, *query, *score, *row;
    bool nan_to_zero;
} head;

static void attend(const head *h, int64_t s)
{
    const sparta_tensor *mask = &h->mask, *y = &h->y;
    int64_t n = h->v.rows;
    sp_matrix_row(&h->q, s, h->query);
    sp_product_row(h->query, &h->k_transposed, h->score);
    for (int64_t t = 0; t < n; t++) {
        h->score[t] *= h->scale;
        if (mask->rank >= 0)
            h->score[t] += sp_element_get(mask->dtype, mask->data, s * mask->stride[0] + t * mask->stride[1]);
    }
    sp_line_softmax(h->score, n);
    for (int64_t t = 0; h->nan_to_zero && t < n; t++)
        if (isnan(h->score[t])) h->score[t] = 0;
    sp_product_row(h->score, &h->v, h->row);
    for (int64_t d = 0; d < h->v.cols; d++)
        sp_element_set(y->dtype, y->data, s * y->stride[0] + d * y->stride[1], h->row[d]);
}

/* Batch b and head i of a (B, rows, heads*D) tensor: (rows, D). */
static sparta_tensor piece(const sparta_tensor *t, int64_t b, int64_t i, int64_t d)
{
    sparta_tensor v = sp_view_drop(t, 0, b);
    return sp_view_part(&v, 1, i * d, d);
}

/* e, d: columns of a head in q and k, in v and y. */
static void bind(head *h, const sp_op_args *args, const sparta_tensor *mask, const int64_t at[2], int64_t e,
                 int64_t d)
{
    sparta_tensor q = piece(&args->in[0], at[0], at[1], e), k = piece(&args->in[1], at[0], at[1], e);
    sparta_tensor v = piece(&args->in[2], at[0], at[1], d);
    h->q = sp_matrix_of(&q, false);
    h->k_transposed = sp_matrix_of(&k, true);
    h->v = sp_matrix_of(&v, false);
    h->y = piece(&args->out[0], at[0], at[1], d);
    h->mask = *mask;
    if (mask->rank < 0) return;
    h->mask = sp_view_drop(mask, 0, at[0]);
    h->mask = sp_view_drop(&h->mask, 0, at[1]);
}

sparta_status sp_builtin_Attention(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *q = &args->in[0], *k = &args->in[1], *v = &args->in[2];
    int64_t heads = sp_attr_int(args->attrs, "heads", 1);
    if (heads < 1 || q->dim[2] % heads || v->dim[2] % heads)
        return sp_fail(cx, SPARTA_E_SHAPE, "Attention: %lld heads of %lld and %lld columns", (long long)heads,
                       (long long)q->dim[2], (long long)v->dim[2]);
    int64_t e = q->dim[2] / heads, d = v->dim[2] / heads, full[4] = {q->dim[0], heads, q->dim[1], k->dim[1]};
    head h = {.scale = sp_attr_float(args->attrs, "scale", e ? (float)(1 / sqrt((double)e)) : 1)};
    h.nan_to_zero = sp_attr_int(args->attrs, "nan_to_zero", 0) != 0;
    sparta_tensor mask = {.rank = -1};
    if (sp_op_has(args, 3)) SP_TRY(sp_tensor_broadcast(cx, &args->in[3], 4, full, &mask));
    h.query = sp_alloc_array(cx, (size_t)e + (size_t)d + (size_t)full[3], sizeof *h.query);
    SP_NEED(cx, h.query);
    h.row = h.query + e;
    h.score = h.row + d;
    sparta_status status = SPARTA_OK;
    const int64_t count = sp_op_empty(args) ? 0 : full[0] * heads; /* heads of 0 columns may be 2^62 */
    for (int64_t i = 0; i < count && status == SPARTA_OK; i++) {
        bind(&h, args, &mask, (int64_t[]){i / heads, i % heads}, e, d);
        for (int64_t s = 0; s < full[2]; s++) attend(&h, s);
        status = sp_check_cancel(cx);
    }
    sp_free(cx, h.query);
    return status;
}
