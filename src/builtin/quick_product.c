/* Products of two activations: MatMul, Gemm and Einsum as batches of matrix products, and these as blocks that threads share. */
#include "builtin/quick.h"
#include "builtin/view.h"
#include <string.h>

enum { BLOCK_ROWS = 480, BLOCK_COLUMNS = 128 }; /* what one thread computes at a time */

/* ------------------------------------------------------------------ blocks */
typedef struct job {
    const sp_products *p;
    const sp_quick_kernels *kernels;
    int64_t down, across; /* blocks of one product */
} job;

static void multiply_blocks(void *arg, int64_t from, int64_t to)
{
    const job *j = arg;
    const sp_products *p = j->p;
    for (int64_t i = from; i < to; i++) {
        int64_t batch = i / (j->down * j->across);
        const int64_t row = i / j->across % j->down * BLOCK_ROWS, col = i % j->across * BLOCK_COLUMNS;
        sp_block b = {.a = p->a + row * p->a_row,
                      .b = p->b + col * p->b_col,
                      .c = p->c + row * p->c_row + col,
                      .m = SP_MIN(p->m - row, (int64_t)BLOCK_ROWS),
                      .n = SP_MIN(p->n - col, (int64_t)BLOCK_COLUMNS),
                      .k = p->k,
                      .a_row = p->a_row,
                      .a_col = p->a_col,
                      .b_row = p->b_row,
                      .b_col = p->b_col,
                      .c_row = p->c_row,
                      .add = p->add};
        for (int d = p->rank - 1; d >= 0; batch /= p->size[d], d--) {
            const int64_t at = batch % p->size[d];
            b.a += at * p->a_step[d];
            b.b += at * p->b_step[d];
            b.c += at * p->c_step[d];
        }
        j->kernels->multiply(&b);
    }
}

/* The same product with rows and columns changed: c^T = b^T a^T. */
static void turn(sp_products *p)
{
    const sp_products q = *p;
    p->a = q.b, p->b = q.a;
    p->m = q.n, p->n = q.m;
    p->a_row = q.b_col, p->a_col = q.b_row;
    p->b_row = q.a_col, p->b_col = q.a_row;
    p->c_row = q.c_col, p->c_col = q.c_row;
    memcpy(p->a_step, q.b_step, sizeof p->a_step);
    memcpy(p->b_step, q.a_step, sizeof p->b_step);
}

/* Where all of the innermost batch is multiplied with one b, its rows are more rows of one product. */
static void merge(sp_products *p)
{
    for (; p->rank > 0; p->rank--) {
        const int d = p->rank - 1;
        const bool more =
            p->b_step[d] == 0 && p->a_step[d] == p->m * p->a_row && p->c_step[d] == p->m * p->c_row;
        if (p->size[d] != 1 && !more) return;
        p->m *= p->size[d];
    }
}

/* A sum over nothing. */
static void clear(void *arg, int64_t from, int64_t to)
{
    const job *j = arg;
    const sp_products *p = j->p;
    for (int64_t i = from; i < to; i++) {
        int64_t batch = i / p->m;
        float *c = p->c + i % p->m * p->c_row;
        for (int d = p->rank - 1; d >= 0; batch /= p->size[d], d--) c += batch % p->size[d] * p->c_step[d];
        memset(c, 0, (size_t)p->n * sizeof *c);
    }
}

sparta_status sp_quick_products(sparta_ctx *cx, const sp_products *given, bool *done)
{
    sp_products p = *given;
    const bool column = p.n == 1 && (p.c_row == 1 || p.m == 1);
    if (column || (p.c_col != 1 && p.n > 1 && p.c_row == 1)) turn(&p);
    if (p.c_col != 1 && p.n > 1) return SPARTA_OK;
    merge(&p);
    int64_t items = 1;
    for (int d = 0; d < p.rank; d++) items *= p.size[d];
    job j = {&p, sp_quick_here(), (p.m - 1) / BLOCK_ROWS + 1, (p.n - 1) / BLOCK_COLUMNS + 1};
    *done = true;
    if (p.k == 0 && p.add) return SPARTA_OK;
    if (p.k == 0) return sp_ctx_share(cx, items * p.m, p.n * 4, clear, &j);
    /* A unit of sharing is an element moved; multiply-adds are several at a time. */
    const double each = (double)SP_MIN(p.m, (int64_t)BLOCK_ROWS) *
                        (double)SP_MIN(p.n, (int64_t)BLOCK_COLUMNS) * (double)p.k / 8;
    return sp_ctx_share(cx, items * j.down * j.across, (int64_t)SP_MIN(each, 0x1p50), multiply_blocks, &j);
}

/* ------------------------------------------------------------------ MatMul and Gemm */
static bool floats(const sp_op_args *args)
{
    return sp_quick_floats(&args->in[0]) && sp_quick_floats(&args->in[1]) && sp_quick_floats(&args->out[0]);
}

sparta_status sp_quick_MatMul(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    const sparta_tensor *a = &args->in[0], *b = &args->in[1], *out = &args->out[0];
    if (!floats(args) || a->rank < 2 || b->rank < 2) return SPARTA_OK;
    const int r = out->rank, batch = r - 2, ar = a->rank, br = b->rank;
    sparta_tensor x = sp_view_head(a, ar - 2), y = sp_view_head(b, br - 2);
    SP_TRY(sp_tensor_broadcast(cx, &x, batch, out->dim, &x));
    SP_TRY(sp_tensor_broadcast(cx, &y, batch, out->dim, &y));
    sp_products p = {.rank = batch,
                     .m = out->dim[r - 2],
                     .n = out->dim[r - 1],
                     .k = a->dim[ar - 1],
                     .a_row = a->stride[ar - 2],
                     .a_col = a->stride[ar - 1],
                     .b_row = b->stride[br - 2],
                     .b_col = b->stride[br - 1],
                     .c_row = out->stride[r - 2],
                     .c_col = out->stride[r - 1],
                     .a = a->data,
                     .b = b->data,
                     .c = out->data};
    for (int d = 0; d < batch; d++) {
        p.size[d] = out->dim[d];
        p.a_step[d] = x.stride[d];
        p.b_step[d] = y.stride[d];
        p.c_step[d] = out->stride[d];
    }
    return sp_quick_products(cx, &p, done);
}

typedef struct ending { /* y = alpha y + beta c */
    const sparta_tensor *y, *c;
    float alpha, beta;
} ending;

static void finish_rows(void *arg, int64_t from, int64_t to)
{
    const ending *e = arg;
    const int64_t n = e->y->dim[1], step = e->c ? e->c->stride[1] : 0;
    for (int64_t i = from; i < to; i++) {
        float *y = (float *)e->y->data + i * e->y->stride[0];
        const float *c = e->c ? (const float *)e->c->data + i * e->c->stride[0] : NULL;
        if (e->alpha != 1)
            for (int64_t j = 0; j < n; j++) y[j * e->y->stride[1]] *= e->alpha;
        for (int64_t j = 0; c && j < n; j++) y[j * e->y->stride[1]] += e->beta * c[j * step];
    }
}

sparta_status sp_quick_Gemm(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    const sparta_tensor *a = &args->in[0], *b = &args->in[1], *out = &args->out[0];
    const int ta = sp_attr_int(args->attrs, "transA", 0) != 0,
              tb = sp_attr_int(args->attrs, "transB", 0) != 0;
    sparta_tensor c;
    ending e = {out, NULL, sp_attr_float(args->attrs, "alpha", 1), sp_attr_float(args->attrs, "beta", 1)};
    if (!floats(args) || (sp_op_has(args, 2) && !sp_quick_floats(&args->in[2]))) return SPARTA_OK;
    if (sp_op_has(args, 2)) SP_TRY(sp_tensor_broadcast(cx, &args->in[2], 2, out->dim, &c));
    if (sp_op_has(args, 2)) e.c = &c;
    const sp_products p = {.m = out->dim[0],
                           .n = out->dim[1],
                           .k = a->dim[!ta],
                           .a_row = a->stride[ta],
                           .a_col = a->stride[!ta],
                           .b_row = b->stride[tb],
                           .b_col = b->stride[!tb],
                           .c_row = out->stride[0],
                           .c_col = out->stride[1],
                           .a = a->data,
                           .b = b->data,
                           .c = out->data};
    SP_TRY(sp_quick_products(cx, &p, done));
    if (!*done || (!e.c && e.alpha == 1)) return SPARTA_OK;
    return sp_ctx_share(cx, out->dim[0], 8 * out->dim[1], finish_rows, &e);
}
