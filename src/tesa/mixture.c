/* Dense blocks of a mixture: how many blocks of 8x8, 16x16, 32x32, 64x64 hold enough to be stored whole.
 *
 *     64 rows   8 rows: the ones of each byte, added up      counts of 8x8
 *                  |                                         2x2 of them: 16x16, then 32x32, 64x64
 *
 * With two sizes, blocks and single elements, the cheapest cover stores exactly the blocks whose own price is at most
 * that of their elements: one threshold a size, so a pass of counting decides it (the tests compare with cover.c).
 */
#include "tesa/words.h"

#define SIZES SP_MIXTURE_SIZES
#define SIDE  8
#ifdef __clang__
#define VECTORS
#else
#define VECTORS __attribute__((optimize("O3")))
#endif

/* Ones of each byte. */
static inline uint64_t ones_of_bytes(uint64_t x)
{
    x -= x >> 1 & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    return (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
}

/* Counts of the 8x8 blocks of rows [n0, n0 + 8). */
VECTORS static void count_bytes(const sp_mask *m, int64_t n0, uint64_t *sum, uint16_t *to)
{
    int64_t rows = SP_MIN(SIDE, m->rows - n0), words = m->words;
    for (int64_t j = 0; j < words; j++) sum[j] = 0;
    for (int64_t r = 0; r < rows; r++) {
        const uint64_t *row = sp_mask_row(m, n0 + r);
        for (int64_t j = 0; j < words; j++) sum[j] += ones_of_bytes(row[j]); /* at most 64 a byte */
    }
    for (int64_t j = 0; j < words; j++)
        for (int b = 0; b < 8; b++) to[8 * j + b] = (uint16_t)(sum[j] >> (8 * b) & 255);
}

/* Two rows of counts to one of blocks twice as large. */
VECTORS static void fold(const uint16_t *upper, const uint16_t *lower, int64_t n, uint16_t *to)
{
    for (int64_t k = 0; k < n; k++)
        to[k] = (uint16_t)(upper[2 * k] + upper[2 * k + 1] + lower[2 * k] + lower[2 * k + 1]);
}

VECTORS static void tally(const uint16_t *count, int64_t n, int64_t least, int64_t *blocks, int64_t *inside)
{
    uint32_t some = 0, in = 0; /* a row of blocks at a time: n is at most 2^20 here */
    for (int64_t k = 0; k < n; k++) {
        uint32_t c = count[k], take = c >= (uint32_t)least;
        some += take;
        in += take ? c : 0;
    }
    *blocks += some;
    *inside += in;
}

/* Rows of counts may be long: in pieces whose sums fit. */
static void tally_row(const uint16_t *count, int64_t n, int64_t least, int64_t *blocks, int64_t *inside)
{
    for (int64_t at = 0, piece = 1 << 16; at < n; at += piece)
        tally(count + at, SP_MIN(piece, n - at), least, blocks, inside);
}

sparta_status sp_count_dense(sparta_ctx *cx, const sp_mask *m, const int64_t *least, int64_t *blocks,
                             int64_t *inside)
{
    int64_t wide = m->words * 8;
    uint64_t *sum = sp_alloc_array(cx, (size_t)m->words, sizeof *sum);
    uint16_t *count = sum ? sp_alloc_array(cx, (size_t)wide * 15, sizeof *count) : NULL;
    if (!count) {
        sp_free(cx, sum);
        return sp_ctx_status(cx);
    }
    uint16_t *level[SIZES] = {count, count + 8 * wide, count + 12 * wide, count + 14 * wide};
    for (int64_t n0 = 0; n0 < m->rows; n0 += WORD)
        for (int s = 0; s < SIZES; s++) {
            int64_t across = wide >> s;
            for (int64_t r = 0; r < 8 >> s && n0 + (r << (3 + s)) < m->rows; r++) {
                uint16_t *to = level[s] + r * across;
                if (!s)
                    count_bytes(m, n0 + SIDE * r, sum, to);
                else
                    fold(level[s - 1] + 4 * r * across, level[s - 1] + (4 * r + 2) * across, across, to);
                tally_row(to, across, least[s], &blocks[s], &inside[s]);
            }
            int64_t used = SP_MIN(8 >> s, sp_ceil_div(m->rows - n0, SIDE << s));
            for (int64_t i = used * across; i < (8 >> s) * across; i++)
                level[s][i] = 0; /* below the last row */
        }
    sp_free(cx, sum);
    sp_free(cx, count);
    return SPARTA_OK;
}
