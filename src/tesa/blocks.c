/* From elements to blocks and back.
 *
 *     refine 2x4                                      coarsen any 2x4
 *        1 .          1111 ....        1.1. ....
 *                     1111 ....        .... ....   ->   1 .
 *
 * Where the width is a power of two up to 64 a word of elements becomes 64/k bits by folding and squeezing, and
 * back by spreading and multiplying; other widths walk from block to block.
 */
#include "tesa/words.h"
#include <string.h>

/* Step i joins pairs of groups of 2^i bits that stand 2^(s+i) apart. */
uint64_t sp_word_squeeze(uint64_t x, int s)
{
    for (int i = 0; s && s + i < 6; i++) {
        int apart = 1 << (s + i), group = 1 << i;
        x = (x | x >> (apart - group)) & (sp_every[s + i + 1] * sp_low(2 * group));
    }
    return x;
}

uint64_t sp_word_spread(uint64_t x, int s)
{
    x &= sp_low(WORD >> s);
    for (int i = 5 - s; s && i >= 0; i--) {
        int apart = 1 << (s + i), group = 1 << i;
        x = (x | x << (apart - group)) & (sp_every[s + i] * sp_low(group));
    }
    return x;
}

static sparta_status check_block(sparta_ctx *cx, const char *who, int64_t n, int64_t k)
{
    if (n >= 1 && k >= 1) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_USAGE, "%s: %lldx%lld is no block; both sizes must be at least 1", who,
                   (long long)n, (long long)k);
}

/* ------------------------------------------------------------------ coarsen */

/* Bit j of `to`: anything among columns [j*k, j*k+k) of `any`. */
static void narrow(const uint64_t *any, int64_t cols, int64_t k, uint64_t *to)
{
    int s = sp_log2_of(k);
    if (s < 0) {
        for (int64_t at = sp_bits_next(any, 0, cols); at < cols;) {
            int64_t block = at / k;
            to[block / WORD] |= UINT64_C(1) << (block % WORD);
            at = cols - block * k <= k ? cols : sp_bits_next(any, (block + 1) * k, cols);
        }
        return;
    }
    for (int64_t j = 0; j * WORD < cols; j++) {
        uint64_t x = any[j];
        for (int i = 0; i < s; i++) x |= x >> (1 << i);
        sp_bits_or(to, j * WORD >> s, sp_word_squeeze(x & sp_every[s], s), WORD >> s);
    }
}

/* A row of `any`: the union of rows [n0, n1). */
static void unite(const sp_mask *m, int64_t n0, int64_t n1, uint64_t *any)
{
    memset(any, 0, (size_t)m->words * sizeof *any);
    for (int64_t i = n0; i < n1; i++)
        for (int64_t j = 0; j < m->words; j++) any[j] |= sp_mask_row(m, i)[j];
}

sparta_status sp_mask_coarsen(sparta_ctx *cx, const sp_mask *m, int64_t n, int64_t k, sp_mask *out)
{
    SP_TRY(check_block(cx, "coarsen", n, k));
    sp_mask blocks;
    SP_TRY(sp_mask_create(cx, sp_ceil_div(m->rows, n), sp_ceil_div(m->cols, k), &blocks));
    uint64_t *any = sp_alloc(cx, (size_t)m->words * sizeof *any);
    if (!any) {
        sp_mask_free(cx, &blocks);
        return sp_ctx_status(cx);
    }
    for (int64_t b = 0; m->words && b < blocks.rows; b++) {
        int64_t n0 = b * n, n1 = m->rows - n0 < n ? m->rows : n0 + n;
        unite(m, n0, n1, any);
        narrow(any, m->cols, k, sp_mask_row(&blocks, b));
    }
    sp_free(cx, any);
    *out = blocks;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ count */

/* Counts of the 64 >> s fields of a word, each in its own 2^s bits (s at least 1: 2^s fits there). */
static inline uint64_t count_fields(uint64_t x, int s)
{
    static const uint64_t keep[6] = {UINT64_C(0x5555555555555555), UINT64_C(0x3333333333333333),
                                     UINT64_C(0x0f0f0f0f0f0f0f0f), UINT64_C(0x00ff00ff00ff00ff),
                                     UINT64_C(0x0000ffff0000ffff), UINT64_C(0x00000000ffffffff)};
    for (int i = 0; i < s; i++) x = (x & keep[i]) + (x >> (1 << i) & keep[i]);
    return x;
}

static void count_row_by_words(const uint64_t *row, int64_t cols, int s, int64_t *count)
{
    uint64_t field = sp_low(1 << s);
    for (int64_t j = 0; j * WORD < cols; j++) {
        uint64_t x = row[j];
        if (!x) continue;
        int64_t *to = count + (j * WORD >> s);
        if (s == 6) {
            *to += (int64_t)sp_ones(x);
            continue;
        }
        for (x = count_fields(x, s); x; x >>= 1 << s) *to++ += (int64_t)(x & field);
    }
}

static void count_row(const uint64_t *row, int64_t cols, int64_t k, int64_t *count)
{
    for (int64_t j = 0, at = 0; at < cols; j++) {
        int64_t end = cols - at < k ? cols : at + k;
        for (; at < end; at += SP_MIN(WORD, end - at))
            count[j] += (int64_t)sp_ones(sp_bits_get(row, at, SP_MIN(WORD, end - at)));
    }
}

void sp_strip_counts(const sp_mask *m, int64_t n0, int64_t n1, int64_t k, int64_t *count)
{
    int s = sp_log2_of(k);
    for (int64_t n = n0; n < n1; n++)
        if (s >= 0)
            count_row_by_words(sp_mask_row(m, n), m->cols, s, count);
        else
            count_row(sp_mask_row(m, n), m->cols, k, count);
}

/* ------------------------------------------------------------------ refine */

static void widen(const uint64_t *blocks, int64_t cols, int64_t k, uint64_t *to)
{
    int s = sp_log2_of(k);
    if (s < 0) {
        int64_t across = sp_ceil_div(cols, k);
        for (int64_t j = sp_bits_next(blocks, 0, across); j < across; j = sp_bits_next(blocks, j + 1, across))
            sp_bits_fill(to, j * k, cols - j * k < k ? cols : j * k + k);
        return;
    }
    for (int64_t j = 0; j * WORD < cols; j++) {
        int64_t first = j * WORD >> s;
        uint64_t x = sp_word_spread(blocks[first / WORD] >> (first % WORD), s);
        to[j] = (x * sp_low(1 << s)) & sp_low(cols - j * WORD); /* a bit times 2^k - 1 is k bits */
    }
}

sparta_status sp_mask_refine(sparta_ctx *cx, const sp_mask *blocks, int64_t n, int64_t k,
                             const int64_t shape[2], sp_mask *out)
{
    SP_TRY(check_block(cx, "refine", n, k));
    if (shape[0] < 0 || shape[1] < 0 || sp_ceil_div(shape[0], n) != blocks->rows ||
        sp_ceil_div(shape[1], k) != blocks->cols)
        return sp_fail(cx, SPARTA_E_SHAPE,
                       "refine: %lldx%lld elements have not %lldx%lld blocks of %lldx%lld",
                       (long long)shape[0], (long long)shape[1], (long long)blocks->rows,
                       (long long)blocks->cols, (long long)n, (long long)k);
    sp_mask m;
    SP_TRY(sp_mask_create(cx, shape[0], shape[1], &m));
    for (int64_t i = 0; m.words && i < m.rows; i++) {
        if (i % n)
            memcpy(sp_mask_row(&m, i), sp_mask_row(&m, i - 1), (size_t)m.words * sizeof *m.bits);
        else
            widen(sp_mask_row(blocks, i / n), m.cols, k, sp_mask_row(&m, i));
    }
    *out = m;
    return SPARTA_OK;
}
