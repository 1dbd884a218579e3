/* Detection: which block a mask consists of. Blocks are counted by tiles.c, all 49 sizes in one pass. */
#include "tesa/words.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SIZES SP_BLOCK_SIZES

static int64_t empty_rows(const sp_mask *m)
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
static void choose(int64_t (*blocks)[SIZES], double slack, sp_pattern *p)
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

static void name(sp_pattern *p, const sp_mask *m, int64_t present)
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

sparta_status sp_mask_detect(sparta_ctx *cx, const sp_mask *m, double slack, sp_pattern *out)
{
    if (!(slack >= 1))
        return sp_fail(cx, SPARTA_E_USAGE, "detect: slack is %g; it must be at least 1 (exact), e.g. 1.05",
                       slack);
    if (!m->rows || !m->words) { /* no elements, of which a file may declare very many rows */
        *out = (sp_pattern){
            .block_n = 1, .block_m = 1, .empty_rows = m->rows, .empty_cols = m->cols, .name = "empty"};
        return SPARTA_OK;
    }
    uint64_t *in_col = sp_zalloc(cx, (size_t)m->words * sizeof *in_col);
    SP_NEED(cx, in_col);
    int64_t blocks[SIZES][SIZES] = {{0}};
    sparta_status status = sp_count_blocks(cx, m, blocks, in_col);
    sp_pattern p = {.block_n = 1, .block_m = 1, .empty_rows = empty_rows(m), .empty_cols = m->cols};
    for (int64_t j = 0; j < m->words; j++) p.empty_cols -= __builtin_popcountll(in_col[j]);
    sp_free(cx, in_col);
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

sparta_status sp_mask_fill(sparta_ctx *cx, const sp_mask *m, int n, int k, double *out)
{
    if (n < 1 || k < 1)
        return sp_fail(cx, SPARTA_E_USAGE, "fill: %dx%d is no block; both sizes must be at least 1", n, k);
    if (!m->rows || !m->words) {
        *out = 0;
        return SPARTA_OK;
    }
    uint64_t *any = sp_zalloc(cx, (size_t)m->words * sizeof *any);
    SP_NEED(cx, any);
    int64_t blocks = 0;
    for (int64_t n0 = 0; n0 < m->rows; n0 += n) {
        int64_t end = SP_MIN(m->rows, n0 + n);
        memset(any, 0, (size_t)m->words * sizeof *any);
        for (int64_t i = n0; i < end; i++)
            for (int64_t j = 0; j < m->words; j++) any[j] |= m->bits[i * m->words + j];
        for (int64_t at = sp_bits_next(any, 0, m->cols); at < m->cols;
             at = sp_bits_next(any, (at / k + 1) * k, m->cols))
            blocks++;
    }
    sp_free(cx, any);
    int64_t present = sp_mask_count(m);
    *out = present ? (double)blocks * n * k / (double)present : 0;
    return SPARTA_OK;
}
