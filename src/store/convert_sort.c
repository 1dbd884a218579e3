/* Entries in any order (coo) to rows: count the rows, deal the entries to them, sort each row by column.
 *
 *     row  2 0 2 1      start   0 1 2 4        keys of row 2    7|x  3|z   ->   3 7
 *     col  7 4 3 5                             (column and payload in 64 bits)  z x
 *
 * The payload is the value where it fits 32 bits, else the number of the entry. A row is sorted by what is cheapest
 * for its length: by insertion, through a bit for each column, or by digits. An entry that is there twice is not for
 * us: the generic path adds.
 */
#include "store/convert.h"
#include <string.h>

typedef struct {
    sp_source *s;
    const void *row; /* coordinates of level 0 */
    sparta_dtype row_width;
    int threads;
    uint64_t *key;     /* [n] column << 32 | payload, by rows */
    uint64_t *spare;   /* [threads][longest] */
    uint32_t *at;      /* [threads][rows] */
    uint64_t *bits;    /* [threads][cols / 64 + 1], 0 between rows */
    uint32_t *payload; /* [threads][cols] */
    int64_t longest;
} sorting;

static inline int64_t index_at(sparta_dtype width, const void *data, int64_t i)
{
    return width == SPARTA_I32 ? ((const int32_t *)data)[i] : sp_index_get(width, data, i);
}

static uint32_t payload_of(const sp_source *s, int64_t i)
{
    if (!s->values) return 0;
    switch (s->size) {
    case 1: return (uint8_t)s->values[i];
    case 2: return ((const uint16_t *)s->values)[i];
    case 4: return ((const uint32_t *)s->values)[i];
    default: return (uint32_t)i;
    }
}

/* ------------------------------------------------------------------ deal to rows */

static void range_of(const sorting *g, int64_t k, int64_t *lo, int64_t *hi)
{
    *lo = g->s->n / g->threads * k;
    *hi = k + 1 == g->threads ? g->s->n : g->s->n / g->threads * (k + 1);
}

static bool count_part(void *arg, int thread, int64_t from, int64_t to)
{
    const sorting *g = arg;
    (void)thread;
    for (int64_t k = from, lo, hi; k < to; k++) {
        range_of(g, k, &lo, &hi);
        uint32_t *at = g->at + k * g->s->rows;
        for (int64_t i = lo; i < hi; i++) {
            int64_t r = index_at(g->row_width, g->row, i);
            if (r < 0 || r >= g->s->rows) return false;
            at[r]++;
        }
    }
    return true;
}

static void scan(sorting *g)
{
    int64_t sum = 0, rows = g->s->rows;
    for (int64_t r = 0; r < rows; r++) {
        int64_t before = sum;
        g->s->start[r] = sum;
        for (int k = 0; k < g->threads; k++) {
            uint32_t n = g->at[k * rows + r];
            g->at[k * rows + r] = (uint32_t)sum;
            sum += n;
        }
        g->longest = SP_MAX(g->longest, sum - before);
    }
    g->s->start[rows] = sum;
}

static bool deal_part(void *arg, int thread, int64_t from, int64_t to)
{
    const sorting *g = arg;
    const sp_source *s = g->s;
    (void)thread;
    for (int64_t k = from, lo, hi; k < to; k++) {
        range_of(g, k, &lo, &hi);
        uint32_t *at = g->at + k * s->rows;
        for (int64_t i = lo; i < hi; i++) {
            int64_t r = index_at(g->row_width, g->row, i), c = index_at(s->crd_width, s->crd, i);
            if (r < 0 || r >= s->rows || c < 0 || c >= s->cols) return false;
            uint32_t p = at[r]++;
            if (p >= s->n) return false;
            g->key[p] = (uint64_t)c << 32 | payload_of(s, i);
        }
    }
    return true;
}

/* ------------------------------------------------------------------ sort one row */

static void by_insertion(uint64_t *key, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        uint64_t k = key[i];
        int64_t j = i;
        for (; j > 0 && key[j - 1] > k; j--) key[j] = key[j - 1];
        key[j] = k;
    }
}

/* By digits of 8 bits of the column, as many as it has. */
static void by_digits(uint64_t *key, uint64_t *spare, int64_t n, int64_t cols)
{
    for (int shift = 32; (cols - 1) >> (shift - 32) > 0; shift += 8) {
        uint32_t start[257] = {0};
        for (int64_t i = 0; i < n; i++) start[(key[i] >> shift & 255) + 1]++;
        for (int d = 0; d < 256; d++) start[d + 1] += start[d];
        for (int64_t i = 0; i < n; i++) spare[start[key[i] >> shift & 255]++] = key[i];
        memcpy(key, spare, (size_t)n * sizeof *key);
    }
}

/* A bit and a place for each column; false: one is there twice. */
static bool by_bits(const sorting *g, int thread, uint64_t *key, int64_t n)
{
    int64_t cols = g->s->cols, words = cols / 64 + 1, at = 0;
    uint64_t *bits = g->bits + thread * words;
    uint32_t *payload = g->payload + thread * cols;
    for (int64_t i = 0; i < n; i++) {
        uint64_t c = key[i] >> 32;
        bits[c / 64] |= UINT64_C(1) << c % 64;
        payload[c] = (uint32_t)key[i];
    }
    for (int64_t w = 0; w < words; w++) {
        for (uint64_t word = bits[w]; word; word &= word - 1) {
            uint64_t c = (uint64_t)w * 64 + (uint64_t)__builtin_ctzll(word);
            key[at++] = c << 32 | payload[c]; /* at most n: each bit is of an entry */
        }
        bits[w] = 0;
    }
    return at == n;
}

static bool sort_row(const sorting *g, int thread, uint64_t *key, int64_t n)
{
    if (n < 24)
        by_insertion(key, n);
    else if (g->bits && n >= g->s->cols / 64)
        return by_bits(g, thread, key, n);
    else
        by_digits(key, g->spare + thread * g->longest, n, g->s->cols);
    bool fine = true;
    for (int64_t i = 1; i < n; i++) fine &= key[i - 1] >> 32 != key[i] >> 32;
    return fine;
}

#define SPLIT(T)                                                                                             \
    for (int64_t i = lo; i < hi; i++) ((T *)s->own_value)[i] = (T)g->key[i];                                 \
    break

/* Keys to columns and values. */
static void split(const sorting *g, int64_t lo, int64_t hi)
{
    sp_source *s = g->s;
    for (int64_t i = lo; i < hi; i++) s->own_col[i] = (int32_t)(g->key[i] >> 32);
    if (!s->own_value) return;
    switch (s->size) {
    case 1: SPLIT(uint8_t);
    case 2: SPLIT(uint16_t);
    case 4: SPLIT(uint32_t);
    default:
        for (int64_t i = lo; i < hi; i++)
            ((uint64_t *)s->own_value)[i] = ((const uint64_t *)s->values)[(uint32_t)g->key[i]];
    }
}

static bool sort_rows(void *arg, int thread, int64_t lo, int64_t hi)
{
    const sorting *g = arg;
    for (int64_t r = lo; r < hi; r++) {
        int64_t first = g->s->start[r];
        if (!sort_row(g, thread, g->key + first, g->s->start[r + 1] - first)) return false;
        split(g, first, g->s->start[r + 1]);
    }
    return true;
}

/* ------------------------------------------------------------------ all of it */

/* Work space of the rows: bits pay where a row may be that full. */
static sparta_status row_space(sparta_ctx *cx, sorting *g)
{
    size_t threads = (size_t)g->threads, cols = (size_t)g->s->cols;
    if (g->longest >= g->s->cols / 64) {
        g->bits = sp_alloc_array(cx, threads * (cols / 64 + 1), sizeof *g->bits);
        SP_NEED(cx, g->bits);
        g->payload = sp_alloc(cx, threads * cols * sizeof *g->payload);
        SP_NEED(cx, g->payload);
    }
    g->spare = sp_alloc(cx, threads * (size_t)g->longest * sizeof *g->spare);
    SP_NEED(cx, g->spare);
    g->s->own_col = sp_alloc(cx, (size_t)g->s->n * sizeof *g->s->own_col);
    SP_NEED(cx, g->s->own_col);
    if (!g->s->values) return SPARTA_OK;
    g->s->own_value = sp_alloc(cx, (size_t)g->s->n * g->s->size);
    SP_NEED(cx, g->s->own_value);
    return SPARTA_OK;
}

static sparta_status sort_with(sparta_ctx *cx, sp_pool *pool, sorting *g, bool *can)
{
    sp_source *s = g->s;
    g->at = sp_alloc_array(cx, (size_t)g->threads * (size_t)s->rows, sizeof *g->at);
    SP_NEED(cx, g->at);
    *can = sp_pieces(pool, g->threads, count_part, g);
    if (!*can) return SPARTA_OK;
    scan(g);
    g->key = sp_alloc(cx, (size_t)s->n * sizeof *g->key);
    SP_NEED(cx, g->key);
    *can = sp_pieces(pool, g->threads, deal_part, g) && s->start[s->rows] == s->n;
    if (!*can) return SPARTA_OK;
    SP_TRY(row_space(cx, g));
    SP_TRY(sp_check_cancel(cx));
    *can = sp_pieces(pool, s->rows, sort_rows, g);
    return SPARTA_OK;
}

sparta_status sp_source_sort(sparta_ctx *cx, sp_pool *pool, sp_source *s, bool *can)
{
    sorting g = {.s = s,
                 .row = s->p->crd[0].data,
                 .row_width = s->p->format.level[0].crd,
                 .threads = sp_pieces_threads(pool)};
    *can = s->n <= INT32_MAX;
    sparta_status status = *can ? sort_with(cx, pool, &g, can) : SPARTA_OK;
    sp_free(cx, g.key);
    sp_free(cx, g.spare);
    sp_free(cx, g.at);
    sp_free(cx, g.bits);
    sp_free(cx, g.payload);
    s->crd = s->own_col, s->crd_width = SPARTA_I32;
    if (s->values) s->values = s->own_value;
    s->flat = true;
    return status;
}

/* ------------------------------------------------------------------ blocks in any order */

/* The blocks in the order of their columns: counted, then dealt into column after column. `head` has a place for
 * each column and one more. False: out of range. */
static bool by_column(const sp_source *s, int64_t cols, int64_t *head, int32_t *to)
{
    for (int64_t q = 0; q < s->n; q++) {
        int64_t c = sp_index_get(s->crd_width, s->crd, q);
        if (c < 0 || c >= cols) return false;
        s->blocks[q] = (int32_t)c; /* it may change under us */
        head[c + 1]++;
    }
    for (int64_t c = 0; c < cols; c++) head[c + 1] += head[c];
    for (int64_t q = 0; q < s->n; q++) to[head[s->blocks[q]]++] = (int32_t)q;
    return true;
}

/* ... and from there back to their rows of blocks, where they now ascend. */
static void by_unit(const sp_source *s, int64_t units, const int32_t *column, int32_t *unit, int64_t *head)
{
    for (int64_t u = 0; u < units; u++) {
        head[u] = s->start[u];
        for (int64_t q = s->start[u]; q < s->start[u + 1]; q++) unit[q] = (int32_t)u;
    }
    for (int64_t i = 0; i < s->n; i++) s->blocks[head[unit[column[i]]]++] = column[i];
}

sparta_status sp_source_sort_blocks(sparta_ctx *cx, sp_source *s, bool *can)
{
    int64_t cols = (s->cols + s->storage.b - 1) / s->storage.b,
            units = (s->rows + s->storage.a - 1) / s->storage.a;
    *can = s->n < INT32_MAX;
    if (!*can || !s->n) return SPARTA_OK;
    int64_t *head = sp_alloc_array(cx, (size_t)SP_MAX(cols, units) + 1, sizeof *head);
    int32_t *two = head ? sp_alloc_array(cx, (size_t)s->n, 2 * sizeof *two) : NULL;
    if (two) s->blocks = sp_alloc_array(cx, (size_t)s->n, sizeof *s->blocks);
    sparta_status status = two && s->blocks ? SPARTA_OK : sp_ctx_status(cx);
    if (!status) *can = by_column(s, cols, head, two);
    if (!status && *can) by_unit(s, units, two, two + s->n, head);
    sp_free(cx, head);
    sp_free(cx, two);
    return status;
}
