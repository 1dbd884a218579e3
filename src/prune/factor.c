/* U, upper, with H^-1 = U'U: what SparseGPT needs of the inputs of a layer.
 *
 * With R upper and H = R R', U = R^-1: one factorisation and one inverse, no inverse of H. Both are made of the matrix turned by half
 * a turn (which is its array in reverse), where R is an ordinary lower factor L:
 *
 *     H  --reverse-->  L L'  --invert L in place-->  L^-1  --reverse-->  U
 *
 * in blocks of columns, so that nearly all of the work is products (builtin/quick.h). */
#include "prune/prune.h"
#include "builtin/quick.h"
#include <math.h>
#include <string.h>

enum { BLOCK = 64, STRIP = 128, LINE = 16 };

typedef struct factor {
    sparta_ctx *cx;
    int64_t n;
    float *a;    /* (n, n) */
    float *side; /* (n, BLOCK) or (BLOCK, n + LINE), of a: its rows may lie a power of 2 apart */
    float *room; /* (BLOCK, n) */
    float small[BLOCK * BLOCK]; /* the inverse of a block of the diagonal */
} factor;

static void reverse(float *a, int64_t count)
{
    for (int64_t i = 0, j = count - 1; i < j; i++, j--) {
        const float x = a[i];
        a[i] = a[j];
        a[j] = x;
    }
}

static sparta_status product(const factor *f, const sp_products *p)
{
    bool done;
    SP_TRY(sp_quick_products(f->cx, p, &done));
    return done ? SPARTA_OK : sp_fail(f->cx, SPARTA_E_INTERNAL, "prune: a product was declined");
}

/* The block at (j, j), by the textbook; false: it is not positive. */
static bool factor_block(const factor *f, int64_t j, int64_t b)
{
    float *a = f->a + j * f->n + j;
    for (int64_t i = 0; i < b; i++)
        for (int64_t k = 0; k <= i; k++) {
            double sum = a[i * f->n + k];
            for (int64_t t = 0; t < k; t++) sum -= (double)a[i * f->n + t] * a[k * f->n + t];
            if (i == k && !(sum > 0)) return false;
            a[i * f->n + k] = (float)(i == k ? sqrt(sum) : sum / a[k * f->n + k]);
        }
    return true;
}

/* The inverse of the block at (j, j), a lower triangle, into f->small. */
static void invert_block(factor *f, int64_t j, int64_t b)
{
    const float *a = f->a + j * f->n + j;
    memset(f->small, 0, sizeof f->small);
    for (int64_t i = 0; i < b; i++) {
        const double d = 1.0 / a[i * f->n + i];
        for (int64_t k = 0; k < i; k++) {
            double sum = 0;
            for (int64_t t = k; t < i; t++) sum += (double)a[i * f->n + t] * f->small[t * b + k];
            f->small[i * b + k] = (float)(-sum * d);
        }
        f->small[i * b + i] = (float)d;
    }
}

/* Rows below its first block: x L' = a, so that x = a (L^-1)'. Into f->a, and -x into f->side. */
static sparta_status solve_below(factor *f, int64_t j, int64_t b)
{
    const int64_t m = f->n - j - b;
    float *below = f->a + (j + b) * f->n + j;
    invert_block(f, j, b);
    SP_TRY(product(f, &(sp_products){.m = m,
                                     .n = b,
                                     .k = b,
                                     .a = below,
                                     .a_row = f->n,
                                     .a_col = 1,
                                     .b = f->small,
                                     .b_row = 1,
                                     .b_col = b,
                                     .c = f->side,
                                     .c_row = b,
                                     .c_col = 1}));
    for (int64_t i = 0; i < m; i++)
        for (int64_t k = 0; k < b; k++) {
            below[i * f->n + k] = f->side[i * b + k];
            f->side[i * b + k] = -f->side[i * b + k];
        }
    return SPARTA_OK;
}

/* What is right of them loses their product; of it only what is on and below the diagonal. */
static sparta_status update_right(const factor *f, int64_t j, int64_t b)
{
    for (int64_t c = j + b; c < f->n; c += STRIP)
        SP_TRY(product(f, &(sp_products){.m = f->n - c,
                                         .n = SP_MIN(STRIP, f->n - c),
                                         .k = b,
                                         .a = f->side + (c - j - b) * b,
                                         .a_row = b,
                                         .a_col = 1,
                                         .b = f->a + c * f->n + j,
                                         .b_row = 1,
                                         .b_col = f->n,
                                         .c = f->a + c * f->n + c,
                                         .c_row = f->n,
                                         .c_col = 1,
                                         .add = true}));
    return SPARTA_OK;
}

static sparta_status lower(factor *f, bool *positive)
{
    *positive = true;
    for (int64_t j = 0; j < f->n; j += BLOCK) {
        const int64_t b = SP_MIN(BLOCK, f->n - j);
        SP_TRY(sp_check_cancel(f->cx));
        *positive = factor_block(f, j, b);
        if (!*positive) return SPARTA_OK;
        if (j + b == f->n) break;
        SP_TRY(solve_below(f, j, b));
        SP_TRY(update_right(f, j, b));
    }
    for (int64_t i = 0; i < f->n; i++)
        memset(f->a + i * f->n + i + 1, 0, (size_t)(f->n - i - 1) * sizeof *f->a);
    return SPARTA_OK;
}

typedef struct row { /* of blocks */
    const factor *f;
    int64_t j, b;
} row;

/* Columns of (L^-1)[j, :], some at a time: rows of L^-1 above them are 0 there. */
static void invert_strips(void *arg, int64_t from, int64_t to)
{
    const row *r = arg;
    const factor *f = r->f;
    const int64_t j = r->j, b = r->b;
    for (int64_t c = from * STRIP; c < SP_MIN(to * STRIP, j); c += STRIP) {
        const int64_t wide = SP_MIN(STRIP, j - c);
        sp_quick_here()->multiply(&(sp_block){.a = f->side + c,
                                              .b = f->a + c * f->n + c,
                                              .c = f->room + c,
                                              .m = b,
                                              .n = wide,
                                              .k = j - c,
                                              .a_row = j + LINE,
                                              .a_col = 1,
                                              .b_row = f->n,
                                              .b_col = 1,
                                              .c_row = j});
        sp_quick_here()->multiply(&(sp_block){.a = f->small,
                                              .b = f->room + c,
                                              .c = f->a + j * f->n + c,
                                              .m = b,
                                              .n = wide,
                                              .k = b,
                                              .a_row = b,
                                              .a_col = 1,
                                              .b_row = j,
                                              .b_col = 1,
                                              .c_row = f->n});
    }
}

/* Rows of blocks from the top: those above are inverse already. (L^-1)[j, :] = (L[j,j])^-1 (-L[j, :]) L^-1. */
static sparta_status invert(factor *f)
{
    for (int64_t j = 0; j < f->n; j += BLOCK) {
        const int64_t b = SP_MIN(BLOCK, f->n - j);
        SP_TRY(sp_check_cancel(f->cx));
        invert_block(f, j, b);
        for (int64_t i = 0; i < b; i++) {
            float *a = f->a + (j + i) * f->n;
            for (int64_t k = 0; k < j; k++) f->side[i * (j + LINE) + k] = -a[k];
            memcpy(a + j, f->small + i * b, (size_t)b * sizeof *a);
        }
        SP_TRY(sp_ctx_share(f->cx, (j + STRIP - 1) / STRIP, b * STRIP * (j / 2 + b) / 8, invert_strips,
                            &(row){f, j, b}));
    }
    return SPARTA_OK;
}

sparta_status sp_prune_factor(sparta_ctx *cx, int64_t n, const float *h, float *u)
{
    static const double damps[] = {0.01, 0.1, 1.0}; /* of the mean of the diagonal */
    factor f = {.cx = cx, .n = n, .a = u};
    f.side = sp_alloc_array(cx, (size_t)n + LINE, BLOCK * sizeof(float));
    f.room = sp_alloc_array(cx, (size_t)n, BLOCK * sizeof(float));
    double mean = 0;
    bool positive = false;
    for (int64_t i = 0; i < n; i++) mean += h[i * n + i] / (double)n;
    sparta_status status = f.side && f.room ? SPARTA_OK : sp_ctx_status(cx);
    for (size_t d = 0; d < SP_COUNT(damps) && !positive && !status; d++) {
        memcpy(u, h, (size_t)n * (size_t)n * sizeof *u);
        for (int64_t i = 0; i < n; i++) u[i * n + i] += (float)(damps[d] * mean);
        reverse(u, n * n);
        status = lower(&f, &positive);
    }
    if (!status && !positive)
        status = sp_fail(cx, SPARTA_E_FORMAT, "prune: the inputs of a layer cannot be factored");
    if (!status) status = invert(&f);
    if (!status) reverse(u, n * n);
    sp_free(cx, f.side);
    sp_free(cx, f.room);
    return status;
}
