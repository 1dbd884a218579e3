/* Detection: which block a mask consists of.
 *
 * For every size NxM of {1,2,4,8,16,32,64} squared we count the blocks with anything in them, all 49 in one
 * pass. A tile of 64 rows by one word is a pyramid: the words of height N are the OR of N rows, and a word of
 * width M has one bit for every M:
 *
 *      height 1   64 words ---> width 1, 2, 4 .. 64    (x | x >> 1) & 0101..., then (x | x >> 2) & ...
 *      height 2   32 words ---> width 1, 2, 4 .. 64
 *      ...
 *      height 64   1 word  ---> width 1, 2, 4 .. 64
 */
#include "tesa/tesa.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SIZES 7 /* 1 2 4 8 16 32 64 */
#define TILE  64

typedef int64_t pyramid[SIZES][SIZES]; /* [log2 height][log2 width]: blocks with anything in them */

/* After step s a word has a bit for every 2^s, at multiples of 2^s. */
static const uint64_t every[SIZES] = {UINT64_MAX,
                                      UINT64_C(0x5555555555555555),
                                      UINT64_C(0x1111111111111111),
                                      UINT64_C(0x0101010101010101),
                                      UINT64_C(0x0001000100010001),
                                      UINT64_C(0x0000000100000001),
                                      UINT64_C(0x0000000000000001)};

static void count_widths(uint64_t x, int64_t blocks[SIZES])
{
    for (int s = 0; s < SIZES; s++) {
        if (s) x = (x | x >> (1 << (s - 1))) & every[s];
        blocks[s] += __builtin_popcountll(x);
    }
}

static void count_tile(uint64_t a[TILE], pyramid blocks)
{
    for (int s = 0; s < SIZES; s++) {
        int words = TILE >> s;
        if (s)
            for (int i = 0; i < words; i++) a[i] = a[2 * i] | a[2 * i + 1];
        for (int i = 0; i < words; i++)
            if (a[i]) count_widths(a[i], blocks[s]);
    }
}

/* `in_col` gets the OR of all rows. */
static sparta_status count_all(sparta_ctx *cx, const sparta_mask *m, pyramid blocks, uint64_t *in_col)
{
    uint64_t a[TILE];
    for (int64_t n0 = 0; n0 < m->rows; n0 += TILE) {
        SPARTA_TRY(sparta_check_cancel(cx));
        int64_t rows = SPARTA_MIN(TILE, m->rows - n0);
        for (int64_t j = 0; j < m->words; j++) {
            uint64_t any = 0;
            memset(a, 0, sizeof a);
            for (int64_t i = 0; i < rows; i++) any |= a[i] = m->bits[(n0 + i) * m->words + j];
            in_col[j] |= any;
            if (any) count_tile(a, blocks);
        }
    }
    return SPARTA_OK;
}

static int64_t empty_rows(const sparta_mask *m)
{
    int64_t empty = 0;
    for (int64_t n = 0; n < m->rows; n++) {
        uint64_t any = 0;
        for (int64_t j = 0; j < m->words; j++) any |= m->bits[n * m->words + j];
        empty += !any;
    }
    return empty;
}

/* The largest area that holds; among equals the taller. 1x1 always holds. */
static void choose(pyramid blocks, double slack, sparta_pattern *p)
{
    double present = (double)blocks[0][0];
    int best_n = 0, best_m = 0;
    for (int n = 0; n < SIZES; n++)
        for (int m = 0; m < SIZES; m++) {
            double fill = ldexp((double)blocks[n][m], n + m) / present;
            if (fill <= slack && (n + m > best_n + best_m || (n + m == best_n + best_m && n > best_n)))
                best_n = n, best_m = m;
        }
    p->block_n = 1 << best_n;
    p->block_m = 1 << best_m;
    p->fill = ldexp((double)blocks[best_n][best_m], best_n + best_m) / present;
}

static void name(sparta_pattern *p, const sparta_mask *m, int64_t present)
{
    const char *word = NULL;
    if (p->dense)
        word = "dense";
    else if (!present)
        word = "empty";
    else if (present == (m->rows - p->empty_rows) * m->cols)
        word = "rows";
    else if (present == (m->cols - p->empty_cols) * m->rows)
        word = "cols";
    if (word)
        snprintf(p->name, sizeof p->name, "%s", word);
    else
        snprintf(p->name, sizeof p->name, "%dx%d", p->block_n, p->block_m);
}

sparta_status sparta_mask_detect(sparta_ctx *cx, const sparta_mask *m, double slack, sparta_pattern *out)
{
    if (!(slack >= 1))
        return sparta_fail(cx, SPARTA_E_USAGE,
                           "detect: slack is %g; it must be at least 1 (exact), e.g. 1.05", slack);
    if (!m->rows || !m->words) { /* no elements, of which a file may declare very many rows */
        *out = (sparta_pattern){
            .block_n = 1, .block_m = 1, .empty_rows = m->rows, .empty_cols = m->cols, .name = "empty"};
        return SPARTA_OK;
    }
    uint64_t *in_col = sparta_zalloc(cx, (size_t)m->words * sizeof *in_col);
    SPARTA_NEED(cx, in_col);
    pyramid blocks = {{0}};
    sparta_status status = count_all(cx, m, blocks, in_col);
    sparta_pattern p = {.block_n = 1, .block_m = 1, .empty_rows = empty_rows(m), .empty_cols = m->cols};
    for (int64_t j = 0; j < m->words; j++) p.empty_cols -= __builtin_popcountll(in_col[j]);
    sparta_free(cx, in_col);
    if (status) return status;

    int64_t present = blocks[0][0], all = m->rows * m->cols;
    p.density = all ? (double)present / (double)all : 0;
    p.dense = all && present == all;
    if (present) choose(blocks, slack, &p);
    name(&p, m, present);
    *out = p;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ any one size */

sparta_status sparta_mask_fill(sparta_ctx *cx, const sparta_mask *m, int n, int k, double *out)
{
    if (n < 1 || k < 1)
        return sparta_fail(cx, SPARTA_E_USAGE, "fill: %dx%d is no block; both sizes must be at least 1", n,
                           k);
    if (!m->rows || !m->words) {
        *out = 0;
        return SPARTA_OK;
    }
    uint64_t *any = sparta_zalloc(cx, (size_t)m->words * sizeof *any);
    SPARTA_NEED(cx, any);
    int64_t blocks = 0;
    for (int64_t n0 = 0; n0 < m->rows; n0 += n) {
        int64_t end = SPARTA_MIN(m->rows, n0 + n);
        memset(any, 0, (size_t)m->words * sizeof *any);
        for (int64_t i = n0; i < end; i++)
            for (int64_t j = 0; j < m->words; j++) any[j] |= m->bits[i * m->words + j];
        for (int64_t at = sparta_bits_next(any, 0, m->cols); at < m->cols;
             at = sparta_bits_next(any, (at / k + 1) * k, m->cols))
            blocks++;
    }
    sparta_free(cx, any);
    int64_t present = sparta_mask_count(m);
    *out = present ? (double)blocks * n * k / (double)present : 0;
    return SPARTA_OK;
}
