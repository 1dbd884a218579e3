/* Magnitude pruning in one shot: score blocks, find the score below which they go, set them to 0.
 *
 * The threshold is found by radix selection on the bits of the scores (non-negative doubles order like
 * integers): six passes, no sorting, no worst case, and the same answer on every machine. Blocks weigh what
 * they hold, so that ragged edges count right.
 */
#include "prune/prune.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const sparta_tensor *w;
    int64_t n, k;       /* elements */
    int64_t a, b;       /* block */
    int64_t rows, cols; /* blocks */
} grid;

/* ------------------------------------------------------------------ elements */

static inline double magnitude(const sparta_tensor *w, int64_t at)
{
    double x = w->dtype == SPARTA_F32 ? ((const float *)w->data)[at] : sp_element_get(w->dtype, w->data, at);
    return isnan(x) ? INFINITY : fabs(x); /* what cannot be compared stays as long as possible */
}

/* All elements of one block, always in the same order: sums must not depend on how the file stores the weight. */
static double block_score(const grid *g, int64_t i, int64_t j)
{
    int64_t n1 = SP_MIN(g->n, (i + 1) * g->a), k1 = SP_MIN(g->k, (j + 1) * g->b);
    double sum = 0;
    for (int64_t n = i * g->a; n < n1; n++)
        for (int64_t k = j * g->b; k < k1; k++)
            sum += magnitude(g->w, n * g->w->stride[0] + k * g->w->stride[1]);
    return sum / ((double)(n1 - i * g->a) * (double)(k1 - j * g->b));
}

static int64_t block_weight(const grid *g, int64_t i, int64_t j)
{
    return SP_MIN(g->a, g->n - i * g->a) * SP_MIN(g->b, g->k - j * g->b);
}

static void drop(const sparta_tensor *w, int64_t n, int64_t k, sp_mask *mask)
{
    int64_t size = (int64_t)sparta_dtype_size(w->dtype);
    memset((char *)w->data + (n * w->stride[0] + k * w->stride[1]) * size, 0, (size_t)size);
    if (mask) mask->bits[n * mask->words + k / 64] &= ~(UINT64_C(1) << (k % 64));
}

static void drop_block(const grid *g, int64_t i, int64_t j, sp_mask *mask)
{
    int64_t n1 = SP_MIN(g->n, (i + 1) * g->a), k1 = SP_MIN(g->k, (j + 1) * g->b);
    for (int64_t n = i * g->a; n < n1; n++)
        for (int64_t k = j * g->b; k < k1; k++) drop(g->w, n, k, mask);
}

/* ------------------------------------------------------------------ selection */

#define DIGIT   11
#define BUCKETS (1 << DIGIT)

static uint64_t bits_of(double score)
{
    uint64_t bits;
    memcpy(&bits, &score, sizeof bits);
    return bits;
}

/* The smallest score such that blocks up to and including it weigh at least `need`; *below gets what those under it weigh. */
static uint64_t threshold(const grid *g, const double *score, int64_t need, int64_t *below)
{
    uint64_t prefix = 0, known = 0; /* the high bits found so far, and which they are */
    int64_t under = 0;
    for (int shift = 64 - 64 % DIGIT; shift >= 0;
         shift -= DIGIT) { /* 55, 44, .. 0; the first digit has 9 bits */
        int64_t weight[BUCKETS] = {0};
        for (int64_t i = 0; i < g->rows; i++)
            for (int64_t j = 0; j < g->cols; j++) {
                uint64_t bits = bits_of(score[i * g->cols + j]);
                if ((bits & known) == prefix) weight[bits >> shift & (BUCKETS - 1)] += block_weight(g, i, j);
            }
        uint64_t digit = 0;
        while (digit < BUCKETS - 1 && under + weight[digit] < need) under += weight[digit++];
        prefix |= digit << shift;
        known |= (uint64_t)(BUCKETS - 1) << shift;
    }
    *below = under;
    return prefix;
}

int64_t sp_prune_needed(int64_t count, double sparsity)
{
    double all = (double)count;
    int64_t need = (int64_t)ceil(sparsity * all - all * 1e-12 - 1e-9);
    return SP_MAX(0, SP_MIN(need, count));
}

/* ------------------------------------------------------------------ blocks */

/* Visit blocks in the order memory has them; the index of a score does not depend on it. */
static void score_blocks(const grid *g, double *score)
{
    bool by_cols = llabs(g->w->stride[0]) < llabs(g->w->stride[1]);
    int64_t outer = by_cols ? g->cols : g->rows, inner = by_cols ? g->rows : g->cols;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            int64_t row = by_cols ? i : o, col = by_cols ? o : i;
            score[row * g->cols + col] = block_score(g, row, col);
        }
}

/* How many elements went. */
static int64_t prune_blocks(const grid *g, const double *score, int64_t need, sp_mask *mask)
{
    int64_t gone;
    uint64_t limit = threshold(g, score, need, &gone);
    for (int64_t i = 0; i < g->rows; i++)
        for (int64_t j = 0; j < g->cols; j++) {
            uint64_t bits = bits_of(score[i * g->cols + j]);
            if (bits > limit || (bits == limit && gone >= need)) continue;
            if (bits == limit) gone += block_weight(g, i, j);
            drop_block(g, i, j, mask);
        }
    return gone;
}

static sparta_status by_blocks(sparta_ctx *cx, const sp_prune_spec *spec, const sparta_tensor *w,
                               int64_t need, sp_mask *mask, int64_t *gone)
{
    grid g = {.w = w, .n = w->dim[0], .k = w->dim[1], .a = spec->block_n, .b = spec->block_m};
    if (!g.a) g.a = g.n;
    if (!g.b) g.b = g.k;
    g.rows = (g.n + g.a - 1) / g.a;
    g.cols = (g.k + g.b - 1) / g.b;
    if (need <= 0) return SPARTA_OK;
    double *score = sp_alloc_array(cx, (size_t)g.rows * (size_t)g.cols, sizeof *score);
    SP_NEED(cx, score);
    score_blocks(&g, score);
    sparta_status status = sp_check_cancel(cx);
    if (!status) *gone += prune_blocks(&g, score, need, mask);
    sp_free(cx, score);
    return status;
}

/* ------------------------------------------------------------------ n:m */

/* Of `count` elements from (n,k) on, one step being (dn,dk), drop all but `keep`: those that enough others outrank. */
static void prune_group(const sparta_tensor *w, int64_t n, int64_t k, const sp_prune_spec *spec, int count,
                        sp_mask *mask)
{
    double m[256];
    int64_t dn = spec->along_out ? 1 : 0, dk = 1 - dn;
    for (int i = 0; i < count; i++)
        m[i] = magnitude(w, (n + i * dn) * w->stride[0] + (k + i * dk) * w->stride[1]);
    for (int i = 0; i < count; i++) {
        int better = 0;
        for (int j = 0; j < count; j++) better += m[j] > m[i] || (m[j] == m[i] && j > i);
        if (better >= spec->keep) drop(w, n + i * dn, k + i * dk, mask);
    }
}

static sparta_status by_groups(sparta_ctx *cx, const sp_prune_spec *spec, const sparta_tensor *w,
                               sp_mask *mask)
{
    int64_t step_n = spec->along_out ? spec->of : 1, step_k = spec->along_out ? 1 : spec->of;
    for (int64_t n = 0; n < w->dim[0]; n += step_n) {
        SP_TRY(sp_check_cancel(cx));
        for (int64_t k = 0; k < w->dim[1]; k += step_k) {
            int64_t left = spec->along_out ? w->dim[0] - n : w->dim[1] - k;
            prune_group(w, n, k, spec, (int)SP_MIN(left, spec->of), mask);
        }
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the public part */

static sparta_status check(sparta_ctx *cx, const sp_prune_spec *spec, const sparta_tensor *w)
{
    if (w->rank != 2 || w->dim[0] < 0 || w->dim[1] < 0)
        return sp_fail(cx, SPARTA_E_SHAPE,
                       "prune: a weight has 2 dimensions (n,k), this one has %d; view it so", w->rank);
    if (!sp_dtype_is_float(w->dtype))
        return sp_fail(cx, SPARTA_E_DTYPE, "prune: the weight is %s; only floats are pruned by magnitude",
                       sparta_dtype_name(w->dtype));
    bool groups = spec->of >= 2 && spec->of <= 256 && spec->keep >= 1 && spec->keep <= spec->of;
    bool blocks = spec->of == 0 && spec->block_n >= 0 && spec->block_m >= 0 && spec->sparsity >= 0 &&
                  spec->sparsity <= 1;
    if (!groups && !blocks)
        return sp_fail(cx, SPARTA_E_USAGE, "prune: the spec is none that sp_prune_parse gives");
    return SPARTA_OK;
}

static void fill_mask(sp_mask *m)
{
    uint64_t tail = m->cols % 64 ? (UINT64_C(1) << (m->cols % 64)) - 1 : UINT64_MAX;
    for (int64_t i = 0; i < m->rows * m->words; i++) m->bits[i] = (i + 1) % m->words ? UINT64_MAX : tail;
}

sparta_status sp_prune_count(sparta_ctx *cx, const sp_prune_spec *spec, const sparta_tensor *w, int64_t need,
                             int64_t *gone)
{
    SP_TRY(check(cx, spec, w));
    return by_blocks(cx, spec, w, need, NULL, gone);
}

sparta_status sp_prune(sparta_ctx *cx, const sp_prune_spec *spec, const sparta_tensor *w, sp_mask *mask)
{
    SP_TRY(check(cx, spec, w));
    int64_t gone = 0;
    sp_mask kept = {0};
    if (mask) {
        SP_TRY(sp_mask_create(cx, w->dim[0], w->dim[1], &kept));
        fill_mask(&kept);
    }
    bool any = w->dim[0] > 0 && w->dim[1] > 0;
    sparta_status status =
        !any       ? SPARTA_OK
        : spec->of ? by_groups(cx, spec, w, mask ? &kept : NULL)
                   : by_blocks(cx, spec, w, sp_prune_needed(w->dim[0] * w->dim[1], spec->sparsity),
                               mask ? &kept : NULL, &gone);
    if (status)
        sp_mask_free(cx, &kept);
    else if (mask)
        *mask = kept;
    return status;
}

bool sp_prune_too_large(const sp_prune_spec *p, int64_t n, int64_t k)
{
    return p->of ? p->of > (p->along_out ? n : k) : p->block_n > n || p->block_m > k;
}

bool sp_prune_ragged(const sp_prune_spec *p, int64_t n, int64_t k)
{
    if (p->of) return (p->along_out ? n : k) % p->of != 0;
    return (p->block_n && n % p->block_n) || (p->block_m && k % p->block_m);
}

static int64_t not_finite(const sparta_tensor *w)
{
    int64_t count = 0;
    for (int64_t n = 0; n < w->dim[0]; n++)
        for (int64_t k = 0; k < w->dim[1]; k++)
            count += isinf(magnitude(w, n * w->stride[0] + k * w->stride[1])) != 0; /* NaN has Inf, too */
    return count;
}

void sp_prune_note(sparta_ctx *cx, const sp_prune_spec *spec, const sparta_tensor *w)
{
    if (w->rank != 2 || !sp_dtype_is_float(w->dtype)) return;
    const long long n = w->dim[0], k = w->dim[1], odd = not_finite(w);
    if (sp_prune_ragged(spec, n, k))
        sp_note(
            cx,
            "prune: %d%s%d does not divide a weight of %lldx%lld: %s at its edge are smaller, and kernels "
            "pad them",
            spec->of ? spec->keep : spec->block_n, spec->of ? ":" : "x", spec->of ? spec->of : spec->block_m,
            n, k, spec->of ? "groups" : "blocks");
    if (odd)
        sp_note(
            cx,
            "prune: %lld elements of a weight of %lldx%lld are NaN or Inf: no magnitude is larger, so they "
            "stay as long as any",
            odd, n, k);
}

void sp_prune_threshold(const sparta_tensor *w, double value)
{
    for (int64_t n = 0; n < w->dim[0]; n++)
        for (int64_t k = 0; k < w->dim[1]; k++) {
            const int64_t at = n * w->stride[0] + k * w->stride[1];
            if (fabs(sp_element_get(w->dtype, w->data, at)) < value) sp_element_set(w->dtype, w->data, at, 0);
        }
}
