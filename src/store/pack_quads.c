/* The fast path of quads from a dense tensor: the mask says everything, 64 columns a step.
 *
 *      row 0   1 . 1 . 1      set 0b0101 = row0 & ~row1 & row2 & ~row3, one word at a time:
 *      row 1   . 1 . . .      its bits counted in the first pass, and visited in the second,
 *      row 2   1 . 1 . .      which writes columns and values in their final order
 *      row 3   . . . . .
 *
 * The result is that of opaque_quads.c, array for array; the tests hold them together.
 */
#include "store/entries.h"
#include <string.h>

enum { ROWS = 4, SETS = 1 << ROWS };

typedef struct {
    const sp_mask *mask;
    int64_t width, ranges, strips; /* columns of a range */
} quads;

bool sp_pack_quads_can(const sp_format *f, const sparta_tensor *t)
{
    return f->opaque == &sp_opaque_quads && t->rank == 2 && f->argument[0] % 64 == 0;
}

/* The words of the 4 rows of a strip at word `j`; rows past the last are empty. */
static void words_at(const quads *q, int64_t strip, int64_t j, uint64_t out[ROWS])
{
    for (int64_t r = 0; r < ROWS; r++) {
        const int64_t row = strip * ROWS + r;
        out[r] = row < q->mask->rows ? q->mask->bits[row * q->mask->words + j] : 0;
    }
}

/* The columns of a word that exactly the rows of `set` have. */
static inline uint64_t columns_of(const uint64_t word[ROWS], int set)
{
    uint64_t all = UINT64_MAX;
    for (int r = 0; r < ROWS; r++) all &= set >> r & 1 ? word[r] : ~word[r];
    return all;
}

/* Words [first, last) of a range. */
static void words_of(const quads *q, int64_t range, int64_t *first, int64_t *last)
{
    *first = range * q->width / 64;
    *last = SP_MIN(q->mask->words, (range + 1) * q->width / 64);
}

/* How many columns each set has; returns those of all sets. */
static int64_t count(const quads *q, int64_t range, int64_t strip, int64_t n[SETS])
{
    int64_t first, last, all = 0;
    memset(n, 0, SETS * sizeof *n);
    words_of(q, range, &first, &last);
    for (int64_t j = first; j < last; j++) {
        uint64_t word[ROWS];
        words_at(q, strip, j, word);
        if (!(word[0] | word[1] | word[2] | word[3])) continue;
        for (int set = 1; set < SETS; set++) n[set] += __builtin_popcountll(columns_of(word, set));
    }
    for (int set = 1; set < SETS; set++) all += n[set];
    return all;
}

/* ------------------------------------------------------------------ fill */

typedef struct {
    const sparta_tensor *t;
    uint16_t *index;
    char *value;
} cursor;

static inline __attribute__((always_inline)) void put_set(cursor *c, int64_t strip, int64_t k0, int64_t base,
                                                          uint64_t columns, int set, size_t size)
{
    const sparta_tensor *t = c->t;
    for (; columns; columns &= columns - 1) {
        const int64_t k = k0 + __builtin_ctzll(columns);
        *c->index++ = (uint16_t)(k - base);
        for (int r = 0; r < ROWS; r++) {
            if (!(set >> r & 1)) continue;
            const int64_t at = (strip * ROWS + r) * t->stride[0] + k * t->stride[1];
            memcpy(c->value, (const char *)t->data + at * (int64_t)size, size);
            c->value += size;
        }
    }
}

static void fill(const quads *q, cursor *c, int64_t range, int64_t strip, const int64_t n[SETS])
{
    const size_t size = sparta_dtype_size(c->t->dtype);
    int64_t first, last;
    words_of(q, range, &first, &last);
    for (int set = 1; set < SETS; set++)
        for (int64_t j = first; n[set] && j < last; j++) {
            uint64_t word[ROWS], columns;
            words_at(q, strip, j, word);
            columns = columns_of(word, set);
            if (size == 4) /* a constant size makes each memcpy one move */
                put_set(c, strip, j * 64, range * q->width, columns, set, 4);
            else
                put_set(c, strip, j * 64, range * q->width, columns, set, size);
        }
}

/* ------------------------------------------------------------------ the whole */

static sparta_status too_many(sparta_ctx *cx, int64_t n)
{
    return sp_fail(cx, SPARTA_E_USAGE,
                   "pack: quads: %lld columns of a block have one pattern, counts hold %d; use quads(%d)",
                   (long long)n, UINT16_MAX, UINT16_MAX / 2 + 1);
}

static sparta_status measure(sparta_ctx *cx, const quads *q, size_t size, sp_store_stats *stats,
                             int64_t *columns)
{
    int64_t n[SETS];
    *columns = 0;
    for (int64_t i = 0; i < q->ranges * q->strips; i++) {
        const int64_t all = count(q, i / q->strips, i % q->strips, n);
        for (int set = 1; set < SETS; set++) {
            if (n[set] > UINT16_MAX) return too_many(cx, n[set]);
            stats->elements += n[set] * __builtin_popcount((unsigned)set);
        }
        stats->longest[0] = SP_MAX(stats->longest[0], all);
        *columns += all;
        if (i % 1024 == 0) SP_TRY(sp_check_cancel(cx));
    }
    stats->slots = stats->elements;
    stats->segments[0] = q->ranges * q->strips;
    stats->crd_bytes = (size_t)(q->ranges * q->strips * SETS + *columns) * sizeof(uint16_t);
    stats->value_bytes = (size_t)stats->elements * size;
    return SPARTA_OK;
}

static sparta_status store(sparta_ctx *cx, const quads *q, const sparta_tensor *t,
                           const sp_store_stats *stats, int64_t columns, sp_packed *out)
{
    const int64_t counts = q->ranges * q->strips * SETS;
    int64_t n[SETS];
    SP_TRY(sp_tensor_alloc(cx, SPARTA_U16, 1, &counts, &out->crd[0]));
    SP_TRY(sp_tensor_alloc(cx, SPARTA_U16, 1, &columns, &out->crd[1]));
    SP_TRY(sp_tensor_alloc(cx, t->dtype, 1, &stats->slots, &out->values));
    cursor c = {t, out->crd[1].data, out->values.data};
    for (int64_t i = 0; i < q->ranges * q->strips; i++) {
        uint16_t *to = (uint16_t *)out->crd[0].data + i * SETS;
        count(q, i / q->strips, i % q->strips, n);
        for (int set = 1; set < SETS; set++) to[set] = (uint16_t)n[set];
        fill(q, &c, i / q->strips, i % q->strips, n);
        if (i % 1024 == 0) SP_TRY(sp_check_cancel(cx));
    }
    return SPARTA_OK;
}

sparta_status sp_pack_quads(sparta_ctx *cx, const sp_pack_job *job, sp_packed *out, sp_store_stats *stats)
{
    const sparta_tensor *t = job->t;
    sp_mask own = {0};
    int64_t columns;
    if (!job->mask) SP_TRY(sp_mask_of(cx, t, &own));
    quads q = {.mask = job->mask ? job->mask : &own};
    q.width = job->format->argument[0] ? job->format->argument[0] : SP_MAX(q.mask->words * 64, 64);
    q.ranges = t->dim[1] / q.width + (t->dim[1] % q.width != 0);
    q.strips = t->dim[0] / ROWS + (t->dim[0] % ROWS != 0);
    sparta_status status = measure(cx, &q, sparta_dtype_size(t->dtype), stats, &columns);
    if (!status && job->store) status = store(cx, &q, t, stats, columns, out);
    sp_mask_free(cx, &own);
    return status;
}
