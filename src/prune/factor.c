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

enum { BLOCK = 64, WIDE = 256 };

typedef struct factor {
    sparta_ctx *cx;
    int64_t n;
    float *a;    /* (n, n) */
    float *room; /* (n, WIDE), and (BLOCK, n) of the inverse */
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

typedef struct column { /* of blocks */
    const factor *f;
    int64_t j, b;
} column;

/* Rows below its first block: x L' = a. */
static void solve_below(void *arg, int64_t from, int64_t to)
{
    const column *at = arg;
    const factor *f = at->f;
    const int64_t j = at->j, b = at->b;
    const float *l = f->a + j * f->n + j;
    for (int64_t i = j + b + from; i < j + b + to; i++) {
        float *x = f->a + i * f->n + j;
        for (int64_t k = 0; k < b; k++) {
            double sum = x[k];
            for (int64_t t = 0; t < k; t++) sum -= (double)x[t] * l[k * f->n + t];
            x[k] = (float)(sum / l[k * f->n + k]);
        }
    }
}

/* What is right of them loses their product; of it only what is on and below the diagonal. */
static sparta_status update_right(const factor *f, int64_t j, int64_t b)
{
    for (int64_t c = j + b; c < f->n; c += WIDE) {
        const int64_t w = SP_MIN(WIDE, f->n - c), m = f->n - c;
        const float *rows = f->a + c * f->n + j;
        SP_TRY(product(f, &(sp_products){.m = m,
                                         .n = w,
                                         .k = b,
                                         .a = rows,
                                         .a_row = f->n,
                                         .a_col = 1,
                                         .b = rows,
                                         .b_row = 1,
                                         .b_col = f->n,
                                         .c = f->room,
                                         .c_row = w,
                                         .c_col = 1}));
        for (int64_t i = 0; i < m; i++)
            for (int64_t k = 0; k < w; k++) f->a[(c + i) * f->n + c + k] -= f->room[i * w + k];
    }
    return SPARTA_OK;
}

static sparta_status lower(const factor *f, bool *positive)
{
    *positive = true;
    for (int64_t j = 0; j < f->n; j += BLOCK) {
        const int64_t b = SP_MIN(BLOCK, f->n - j);
        SP_TRY(sp_check_cancel(f->cx));
        *positive = factor_block(f, j, b);
        if (!*positive) return SPARTA_OK;
        SP_TRY(sp_ctx_share(f->cx, f->n - j - b, b * b / 2, solve_below, &(column){f, j, b}));
        SP_TRY(update_right(f, j, b));
    }
    for (int64_t i = 0; i < f->n; i++)
        memset(f->a + i * f->n + i + 1, 0, (size_t)(f->n - i - 1) * sizeof *f->a);
    return SPARTA_OK;
}

/* The inverse of the block at (j, j), in place. */
static void invert_block(const factor *f, int64_t j, int64_t b)
{
    float *a = f->a + j * f->n + j;
    for (int64_t i = 0; i < b; i++) {
        const double d = 1.0 / a[i * f->n + i];
        for (int64_t k = 0; k < i; k++) {
            double sum = 0;
            for (int64_t t = k; t < i; t++) sum += (double)a[i * f->n + t] * a[t * f->n + k];
            f->room[k] = (float)(-sum * d);
        }
        memcpy(a + i * f->n, f->room, (size_t)i * sizeof *a);
        a[i * f->n + i] = (float)d;
    }
}

/* Rows of blocks from the top: those above are inverse already. (L^-1)[j, :] = - (L[j,j])^-1 L[j, :] L^-1. */
static sparta_status invert(const factor *f)
{
    for (int64_t j = 0; j < f->n; j += BLOCK) {
        const int64_t b = SP_MIN(BLOCK, f->n - j);
        float *row = f->a + j * f->n;
        SP_TRY(sp_check_cancel(f->cx));
        invert_block(f, j, b);
        if (!j) continue;
        SP_TRY(product(f, &(sp_products){.m = b,
                                         .n = j,
                                         .k = j,
                                         .a = row,
                                         .a_row = f->n,
                                         .a_col = 1,
                                         .b = f->a,
                                         .b_row = f->n,
                                         .b_col = 1,
                                         .c = f->room,
                                         .c_row = j,
                                         .c_col = 1}));
        SP_TRY(product(f, &(sp_products){.m = b,
                                         .n = j,
                                         .k = b,
                                         .a = row + j,
                                         .a_row = f->n,
                                         .a_col = 1,
                                         .b = f->room,
                                         .b_row = j,
                                         .b_col = 1,
                                         .c = row,
                                         .c_row = f->n,
                                         .c_col = 1}));
        for (int64_t i = 0; i < b; i++)
            for (int64_t k = 0; k < j; k++) row[i * f->n + k] = -row[i * f->n + k];
    }
    return SPARTA_OK;
}

sparta_status sp_prune_factor(sparta_ctx *cx, int64_t n, const float *h, float *u)
{
    static const double damps[] = {0.01, 0.1, 1.0}; /* of the mean of the diagonal */
    factor f = {cx, n, u, sp_alloc_array(cx, (size_t)n * WIDE, sizeof(float))};
    double mean = 0;
    bool positive = false;
    SP_NEED(cx, f.room);
    for (int64_t i = 0; i < n; i++) mean += h[i * n + i] / (double)n;
    sparta_status status = SPARTA_OK;
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
    sp_free(cx, f.room);
    return status;
}
