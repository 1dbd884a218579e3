/* An order of rows in which blocks show.
 *
 *     a  1 . 1 .            a  1 . 1 .
 *     b  . 1 . 1     ->     c  1 . 1 .      a c b d: 2x1 blocks without a hole
 *     c  1 . 1 .            b  . 1 . 1
 *     d  . 1 . 1            d  . 1 . 1
 *
 * Rows are compared as blocks see them: k columns are one bit. Rows that are equal there (by hash) fill groups
 * first; the others are joined greedily, each group taking the row that adds fewest bits to its union from the
 * next NEAR rows. Nothing here must be right for the answer to be: any order is a permutation.
 */
#include "tesa/words.h"
#include <stdlib.h>
#include <string.h>

#define NEAR 1024 /* rows that a group looks at for each of its members */

typedef struct {
    uint64_t hash;
    int64_t row;
    bool empty;
} key;

static int by_key(const void *left, const void *right)
{
    const key *a = left, *b = right;
    if (a->empty != b->empty) return a->empty ? 1 : -1;
    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

static int64_t added(const uint64_t *row, const uint64_t *has, int64_t words)
{
    uint64_t n = 0;
    for (int64_t j = 0; j < words; j++) n += sp_ones(row[j] & ~has[j]);
    return (int64_t)n;
}

/* Whole groups of equal rows to `order`; the keys of the others stay, in front. Returns how many were placed. */
static int64_t place_equal(key *keys, int64_t *left, int n, int64_t *order)
{
    int64_t placed = 0, kept = 0;
    for (int64_t i = 0, end; i < *left; i = end) {
        for (end = i + 1; end < *left && keys[end].hash == keys[i].hash && keys[end].empty == keys[i].empty;)
            end++;
        int64_t whole = (end - i) / n * n;
        for (int64_t r = 0; r < end - i; r++)
            if (r < whole)
                order[placed++] = keys[i + r].row;
            else
                keys[kept++] = keys[i + r];
    }
    *left = kept;
    return placed;
}

/* One group from the keys [from, left): chosen ones are swapped to its front. */
static void choose_group(const sp_mask *c, key *keys, int64_t from, int64_t left, int n, uint64_t *has)
{
    memcpy(has, sp_mask_row(c, keys[from].row), (size_t)c->words * sizeof *has);
    for (int64_t at = from + 1; at < from + n && at < left; at++) {
        int64_t best = at, least = INT64_MAX;
        for (int64_t i = at; i < left && i < at + NEAR && least; i++) {
            int64_t more = added(sp_mask_row(c, keys[i].row), has, c->words);
            if (more < least) best = i, least = more;
        }
        key swap = keys[at];
        keys[at] = keys[best], keys[best] = swap;
        const uint64_t *row = sp_mask_row(c, keys[at].row);
        for (int64_t j = 0; j < c->words; j++) has[j] |= row[j];
    }
}

static sparta_status order_rows(sparta_ctx *cx, const sp_mask *c, int n, key *keys, uint64_t *has,
                                int64_t *order)
{
    int64_t left = c->rows;
    for (int64_t i = 0; i < c->rows; i++) {
        const uint64_t *row = sp_mask_row(c, i);
        keys[i] = (key){.hash = sp_hash(row, (size_t)c->words * sizeof *row, 0),
                        .row = i,
                        .empty = sp_bits_next(row, 0, c->cols) >= c->cols};
    }
    qsort(keys, (size_t)left, sizeof *keys, by_key);
    int64_t placed = place_equal(keys, &left, n, order);
    for (int64_t from = 0; from < left; from += n) {
        SP_TRY(sp_check_cancel(cx));
        choose_group(c, keys, from, left, n, has);
        for (int64_t i = from; i < from + n && i < left; i++) order[placed++] = keys[i].row;
    }
    return SPARTA_OK;
}

sparta_status sp_mask_permute(sparta_ctx *cx, const sp_mask *m, const int64_t *order, sp_mask *out)
{
    sp_mask moved, seen;
    SP_TRY(sp_mask_create(cx, 1, m->rows, &seen));
    sparta_status status = sp_mask_create(cx, m->rows, m->cols, &moved);
    if (status) {
        sp_mask_free(cx, &seen);
        return status;
    }
    for (int64_t n = 0; n < m->rows && !status; n++) {
        int64_t from = order[n];
        if (from < 0 || from >= m->rows || sp_mask_get(&seen, 0, from)) {
            status = sp_fail(cx, SPARTA_E_USAGE,
                             "permute: row %lld at place %lld is out of range or there twice; give a "
                             "permutation of %lld rows",
                             (long long)from, (long long)n, (long long)m->rows);
        } else {
            sp_mask_set(&seen, 0, from);
            memcpy(sp_mask_row(&moved, n), sp_mask_row(m, from), (size_t)m->words * sizeof *m->bits);
        }
    }
    sp_mask_free(cx, &seen);
    if (status)
        sp_mask_free(cx, &moved);
    else
        *out = moved;
    return status;
}

/* The fill with the order; the order itself becomes the present one when it is no better. */
static sparta_status judge(sparta_ctx *cx, const sp_mask *m, int n, int k, int64_t *order, sp_row_order *g)
{
    sp_mask moved;
    SP_TRY(sp_mask_fill(cx, m, n, k, &g->fill_before));
    SP_TRY(sp_mask_permute(cx, m, order, &moved));
    sparta_status status = sp_mask_fill(cx, &moved, n, k, &g->fill_after);
    sp_mask_free(cx, &moved);
    if (!status && g->fill_after >= g->fill_before) {
        for (int64_t i = 0; i < m->rows; i++) order[i] = i;
        g->fill_after = g->fill_before;
    }
    return status;
}

sparta_status sp_mask_order_rows(sparta_ctx *cx, const sp_mask *m, int n, int k, sp_row_order *out)
{
    if (n < 1 || k < 1)
        return sp_fail(cx, SPARTA_E_USAGE, "order of rows: %dx%d is no block; both sizes must be at least 1",
                       n, k);
    sp_mask c;
    SP_TRY(sp_mask_coarsen(cx, m, 1, k, &c));
    int64_t *order = sp_alloc_array(cx, (size_t)m->rows, sizeof *order);
    key *keys = order ? sp_alloc_array(cx, (size_t)m->rows, sizeof *keys) : NULL;
    uint64_t *has = keys ? sp_alloc_array(cx, (size_t)c.words + 1, sizeof *has) : NULL;
    sp_row_order g = {.order = order};
    sp_block_format(n, k, m->cols, g.format, sizeof g.format);
    sparta_status status = has ? order_rows(cx, &c, n, keys, has, order) : sp_ctx_status(cx);
    if (!status) status = judge(cx, m, n, k, order, &g);
    sp_free(cx, has);
    sp_free(cx, keys);
    sp_mask_free(cx, &c);
    if (status)
        sp_free(cx, order);
    else
        *out = g;
    return status;
}
