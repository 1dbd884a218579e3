/* An order of rows in which blocks show, and rows by their length.
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
    for (int64_t j = 0; j < words; j++) n += sparta_ones(row[j] & ~has[j]);
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
static void choose_group(const sparta_mask *c, key *keys, int64_t from, int64_t left, int n, uint64_t *has)
{
    memcpy(has, sparta_mask_row(c, keys[from].row), (size_t)c->words * sizeof *has);
    for (int64_t at = from + 1; at < from + n && at < left; at++) {
        int64_t best = at, least = INT64_MAX;
        for (int64_t i = at; i < left && i < at + NEAR && least; i++) {
            int64_t more = added(sparta_mask_row(c, keys[i].row), has, c->words);
            if (more < least) best = i, least = more;
        }
        key swap = keys[at];
        keys[at] = keys[best], keys[best] = swap;
        const uint64_t *row = sparta_mask_row(c, keys[at].row);
        for (int64_t j = 0; j < c->words; j++) has[j] |= row[j];
    }
}

static sparta_status order_rows(sparta_ctx *cx, const sparta_mask *c, int n, key *keys, uint64_t *has,
                                int64_t *order)
{
    int64_t left = c->rows;
    for (int64_t i = 0; i < c->rows; i++) {
        const uint64_t *row = sparta_mask_row(c, i);
        keys[i] = (key){.hash = sparta_hash(row, (size_t)c->words * sizeof *row, 0),
                        .row = i,
                        .empty = sparta_bits_next(row, 0, c->cols) >= c->cols};
    }
    qsort(keys, (size_t)left, sizeof *keys, by_key);
    int64_t placed = place_equal(keys, &left, n, order);
    for (int64_t from = 0; from < left; from += n) {
        SPARTA_TRY(sparta_check_cancel(cx));
        choose_group(c, keys, from, left, n, has);
        for (int64_t i = from; i < from + n && i < left; i++) order[placed++] = keys[i].row;
    }
    return SPARTA_OK;
}

/* The fill with the order; the order itself becomes the present one when it is no better. */
static sparta_status judge(sparta_ctx *cx, const sparta_mask *m, int n, int k, int64_t *order,
                           sparta_grouping *g)
{
    sparta_mask moved;
    SPARTA_TRY(sparta_mask_fill(cx, m, n, k, &g->fill_before));
    SPARTA_TRY(sparta_mask_permute(cx, m, order, &moved));
    sparta_status status = sparta_mask_fill(cx, &moved, n, k, &g->fill_after);
    sparta_mask_free(cx, &moved);
    if (!status && g->fill_after >= g->fill_before) {
        for (int64_t i = 0; i < m->rows; i++) order[i] = i;
        g->fill_after = g->fill_before;
    }
    return status;
}

sparta_status sparta_mask_group_rows(sparta_ctx *cx, const sparta_mask *m, int n, int k, sparta_grouping *out)
{
    if (n < 1 || k < 1)
        return sparta_fail(cx, SPARTA_E_USAGE, "group rows: %dx%d is no block; both sizes must be at least 1",
                           n, k);
    sparta_mask c;
    SPARTA_TRY(sparta_mask_coarsen(cx, m, 1, k, SPARTA_COARSEN_ANY, &c));
    int64_t *order = sparta_alloc_array(cx, (size_t)m->rows, sizeof *order);
    key *keys = order ? sparta_alloc_array(cx, (size_t)m->rows, sizeof *keys) : NULL;
    uint64_t *has = keys ? sparta_alloc_array(cx, (size_t)c.words + 1, sizeof *has) : NULL;
    sparta_grouping g = {.order = order};
    sparta_block_format(n, k, m->cols, g.format, sizeof g.format);
    sparta_status status = has ? order_rows(cx, &c, n, keys, has, order) : sparta_ctx_status(cx);
    if (!status) status = judge(cx, m, n, k, order, &g);
    sparta_free(cx, has);
    sparta_free(cx, keys);
    sparta_mask_free(cx, &c);
    if (status)
        sparta_free(cx, order);
    else
        *out = g;
    return status;
}

sparta_status sparta_mask_row_buckets(sparta_ctx *cx, const sparta_mask *m, uint8_t **bucket)
{
    uint8_t *of = sparta_zalloc(cx, (size_t)m->rows);
    SPARTA_NEED(cx, of);
    for (int64_t n = 0; m->words && n < m->rows; n++) {
        uint64_t count = 0;
        for (int64_t j = 0; j < m->words; j++) count += sparta_ones(sparta_mask_row(m, n)[j]);
        of[n] = count < 2 ? (uint8_t)count : (uint8_t)(1 + 64 - __builtin_clzll(count - 1));
    }
    *bucket = of;
    return SPARTA_OK;
}

sparta_status sparta_mask_bucket(sparta_ctx *cx, const sparta_mask *m, const uint8_t *bucket, uint8_t which,
                                 sparta_mask *out)
{
    sparta_mask part;
    SPARTA_TRY(sparta_mask_create(cx, m->rows, m->cols, &part));
    for (int64_t n = 0; m->words && n < m->rows; n++)
        if (bucket[n] == which)
            memcpy(sparta_mask_row(&part, n), sparta_mask_row(m, n), (size_t)m->words * sizeof *m->bits);
    *out = part;
    return SPARTA_OK;
}

sparta_status sparta_mask_bucket_format(sparta_ctx *cx, const sparta_mask *m, int64_t widest,
                                        sparta_text *out)
{
    bool used[66] = {0}, wide = false;
    uint8_t *bucket;
    int parts = 0;
    if (widest < 1 || widest > INT64_C(1) << 40 || widest & (widest - 1))
        return sparta_fail(cx, SPARTA_E_USAGE, "buckets: the widest is %lld; give a power of two",
                           (long long)widest);
    SPARTA_TRY(sparta_mask_row_buckets(cx, m, &bucket));
    for (int64_t n = 0; m->words && n < m->rows; n++) used[bucket[n]] = true;
    sparta_free(cx, bucket);
    sparta_text_printf(out, "sum{");
    for (int b = 1; b < 66; b++) {
        int64_t most = INT64_C(1) << SPARTA_MIN(b - 1, 62), least = b == 1 ? 0 : most / 2;
        wide |= used[b] && most > widest;
        if (!used[b] || most > widest) continue;
        sparta_text_printf(out, "%srownnz in (%lld,%lld] -> (i,j)->(i:compressed, j:packed[%lld])",
                           parts++ ? "; " : "", (long long)least, (long long)most, (long long)most);
    }
    if (wide || !parts) sparta_text_printf(out, "%srest -> csr", parts ? "; " : "");
    sparta_text_printf(out, "}");
    return out->status;
}
