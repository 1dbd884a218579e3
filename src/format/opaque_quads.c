/* quads(K): quad-row buckets, for unstructured weights that are a fifth to three fifths full, and for n:m. K columns
 * make a block (none: all), 4 rows a strip; the columns of each (block, strip) are sorted by which of its 4 rows they have:
 *
 *              k 0 1 2 3 4
 *      row 0     a . c . f      counts[block][strip][16]   [0b0001] = 1: {4}   [0b0010] = 1: {1}   [0b0101] = 2: {0, 2}
 *      row 1     . e . . .      index    4   1   0     2        columns within the block, u16, in order of pattern, then k
 *      row 2     b . d . .      values   f   e   a b   c d      of each column its rows from the first on
 *      row 3     . . . . .
 *
 * Blocks lie one after the other, strips within them. A kernel runs 15 short loops, each with a fixed number of
 * multiplications a column: no zero is stored and no branch taken for an element. counts[..][0] is 0.
 */
#include "format/entries.h"
#include <string.h>

enum { COUNTS, INDEX, ROWS = 4, PATTERNS = 1 << ROWS, WIDEST = 1 << 16 };

typedef struct {
    int64_t rows, cols;
    int64_t width, blocks, strips; /* columns of a block */
} shape;

static shape shape_of(const sp_format *f, const int64_t *dim)
{
    shape s = {.rows = dim[0], .cols = dim[1]};
    s.width = f->argument[0] ? SP_MIN(f->argument[0], s.cols) : s.cols;
    s.width = SP_MAX(s.width, 1);
    s.blocks = s.cols / s.width + (s.cols % s.width != 0);
    s.strips = s.rows / ROWS + (s.rows % ROWS != 0);
    return s;
}

static sparta_status check(sparta_ctx *cx, const sp_format *f, int rank, const int64_t *dim)
{
    int64_t k = f->argument[0], all;
    if (rank != 2)
        return sp_fail(cx, SPARTA_E_USAGE, "format: quads is for 2 dimensions, the tensor has %d", rank);
    if (k < 0 || k > WIDEST || (!k && dim[1] > WIDEST))
        return sp_fail(cx, SPARTA_E_USAGE,
                       "format: quads: indices are u16, a block of %lld columns is too wide; use quads(K) "
                       "with K from 1 to %d",
                       (long long)(k ? k : dim[1]), WIDEST);
    if (dim[0] < 0 || dim[1] < 0)
        return sp_fail(cx, SPARTA_E_SHAPE, "format: quads: %lld x %lld is no shape", (long long)dim[0],
                       (long long)dim[1]);
    shape s = shape_of(f, dim);
    if (!sp_int_mul(s.blocks, s.strips, &all) || !sp_int_mul(all, PATTERNS * s.width, &all))
        return sp_fail(cx, SPARTA_E_LIMIT, "format: quads: %lld x %lld is too large", (long long)dim[0],
                       (long long)dim[1]);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ pack */

typedef struct {
    sp_entry *element; /* key: ((block, strip), column, row) */
    sp_entry *column;  /* key: ((block, strip), pattern, column); source: its first element */
    int64_t columns;
} sorted;

static sparta_status sort(sparta_ctx *cx, const shape *s, const sp_entries *e, sorted *out)
{
    out->element = sp_alloc_array(cx, (size_t)e->n, sizeof *out->element);
    SP_NEED(cx, out->element);
    for (int64_t i = 0; i < e->n; i++) {
        int64_t row = e->index[0][i], k = e->index[1][i], segment = k / s->width * s->strips + row / ROWS;
        out->element[i] = (sp_entry){(segment * s->width + k % s->width) * ROWS + row % ROWS, i};
    }
    SP_TRY(sp_entries_sort(cx, e->n, &out->element));
    out->column = sp_alloc_array(cx, (size_t)e->n, sizeof *out->column);
    SP_NEED(cx, out->column);
    for (int64_t i = 0; i < e->n;) {
        int64_t first = i, column = out->element[i].key / ROWS, pattern = 0;
        for (; i < e->n && out->element[i].key / ROWS == column; i++)
            pattern |= 1 << out->element[i].key % ROWS;
        int64_t key = (column / s->width * PATTERNS + pattern) * s->width + column % s->width;
        out->column[out->columns++] = (sp_entry){key, first};
    }
    return sp_entries_sort(cx, out->columns, &out->column);
}

/* Counts are u16: only a block of 65536 columns that all have one pattern is too much. */
static sparta_status fits(sparta_ctx *cx, const shape *s, const sorted *o)
{
    int64_t run = 0;
    for (int64_t i = 0; i < o->columns; i++) {
        run = i && o->column[i].key / s->width == o->column[i - 1].key / s->width ? run + 1 : 1;
        if (run > UINT16_MAX)
            return sp_fail(cx, SPARTA_E_USAGE,
                           "pack: quads: %lld columns of a block have one pattern, counts hold %d; use "
                           "quads(%d)",
                           (long long)run, UINT16_MAX, WIDEST / 2);
    }
    return SPARTA_OK;
}

static void fill(const shape *s, const sp_entries *e, const sorted *o, sp_packed *out)
{
    uint16_t *counts = out->crd[COUNTS].data, *index = out->crd[INDEX].data;
    size_t size = sparta_dtype_size(e->dtype);
    char *value = out->values.data;
    for (int64_t i = 0; i < o->columns; i++) {
        int64_t bucket = o->column[i].key / s->width;
        int rows = __builtin_popcount((unsigned)(bucket % PATTERNS));
        counts[bucket]++;
        index[i] = (uint16_t)(o->column[i].key % s->width);
        for (int r = 0; r < rows && e->values; r++, value += size) {
            int64_t at = e->source[o->element[o->column[i].source + r].source];
            memcpy(value, (const char *)e->values + at * (int64_t)size, size);
        }
    }
}

static sparta_status store_all(sparta_ctx *cx, const shape *s, const sp_entries *e, const sorted *o,
                               sp_packed *out)
{
    int64_t counts = s->blocks * s->strips * PATTERNS;
    SP_TRY(sp_tensor_alloc(cx, SPARTA_U16, 1, &counts, &out->crd[COUNTS]));
    SP_TRY(sp_tensor_alloc(cx, SPARTA_U16, 1, &o->columns, &out->crd[INDEX]));
    if (e->values) SP_TRY(sp_tensor_alloc(cx, e->dtype, 1, &e->n, &out->values));
    fill(s, e, o, out);
    return SPARTA_OK;
}

static void measure(const shape *s, const sp_entries *e, const sorted *o, sp_format_stats *stats)
{
    int64_t run = 0;
    stats->elements = stats->slots = e->n;
    stats->crd_bytes =
        (size_t)(s->blocks * s->strips * PATTERNS + o->columns) * sizeof(uint16_t); /* check saw it fit */
    stats->value_bytes = e->values ? (size_t)e->n * sparta_dtype_size(e->dtype) : 0;
    stats->segments[0] = s->blocks * s->strips;
    for (int64_t i = 0; i < o->columns; i++) {
        int64_t segment = o->column[i].key / s->width / PATTERNS;
        run = i && segment == o->column[i - 1].key / s->width / PATTERNS ? run + 1 : 1;
        stats->longest[0] = SP_MAX(stats->longest[0], run);
    }
}

static sparta_status pack(sparta_ctx *cx, const sp_format *f, const sp_entries *e, bool store, sp_packed *out,
                          sp_format_stats *stats)
{
    shape s = shape_of(f, e->dim);
    sorted o = {0};
    sparta_status status = sort(cx, &s, e, &o);
    if (!status) status = fits(cx, &s, &o);
    if (!status) measure(&s, e, &o, stats);
    if (!status && store) status = store_all(cx, &s, e, &o, out);
    sp_free(cx, o.element);
    sp_free(cx, o.column);
    return status;
}

/* ------------------------------------------------------------------ read */

/* One bucket: `n` columns from `at` on. */
static sparta_status bucket_verify(sparta_ctx *cx, const shape *s, const sp_packed *p, int64_t bucket,
                                   int64_t at, int64_t n)
{
    const uint16_t *index = p->crd[INDEX].data;
    int64_t segment = bucket / PATTERNS, block = segment / s->strips, strip = segment % s->strips;
    int64_t room = SP_MIN(s->width, s->cols - block * s->width), last = -1;
    int pattern = (int)(bucket % PATTERNS);
    int64_t rows = SP_MIN(ROWS, s->rows - strip * ROWS);
    if (n && (!pattern || pattern >> rows))
        return sp_fail(cx, SPARTA_E_FORMAT,
                       "packed: quads: counts[%lld] is %lld, but the strip has %lld rows", (long long)bucket,
                       (long long)n, (long long)rows);
    for (int64_t i = at; i < at + n; last = index[i++])
        if (index[i] >= room || index[i] <= last)
            return sp_fail(cx, SPARTA_E_FORMAT,
                           "packed: quads: index[%lld] is %d after %lld; the columns of a bucket ascend "
                           "and are below %lld",
                           (long long)i, index[i], (long long)last, (long long)room);
    return SPARTA_OK;
}

static sparta_status verify(sparta_ctx *cx, const sp_packed *p)
{
    shape s = shape_of(&p->format, p->dim);
    int64_t buckets = s.blocks * s.strips * PATTERNS, at = 0, elements = 0;
    SP_TRY(sp_array_check(cx, &p->crd[COUNTS], SPARTA_U16, "counts"));
    SP_TRY(sp_array_check(cx, &p->crd[INDEX], SPARTA_U16, "index"));
    int64_t columns = p->crd[INDEX].dim[0];
    if (p->crd[COUNTS].dim[0] != buckets)
        return sp_fail(cx, SPARTA_E_FORMAT,
                       "packed: quads: counts has %lld entries, %lld blocks of %lld strips need %lld",
                       (long long)p->crd[COUNTS].dim[0], (long long)s.blocks, (long long)s.strips,
                       (long long)buckets);
    for (int64_t b = 0; b < buckets; b++) {
        int64_t n = ((const uint16_t *)p->crd[COUNTS].data)[b];
        if (n > columns - at)
            return sp_fail(cx, SPARTA_E_FORMAT,
                           "packed: quads: counts[%lld] is %lld, index has %lld entries left", (long long)b,
                           (long long)n, (long long)(columns - at));
        SP_TRY(bucket_verify(cx, &s, p, b, at, n));
        at += n;
        elements += n * __builtin_popcount((unsigned)(b % PATTERNS));
    }
    if (at != columns)
        return sp_fail(cx, SPARTA_E_FORMAT, "packed: quads: counts say %lld columns, index has %lld",
                       (long long)at, (long long)columns);
    return sp_values_check(cx, p, false, elements);
}

/* Bounds are looked at again: a mapped file may change under us. */
static sparta_status walk(sparta_ctx *cx, const sp_packed *p, sp_visit visit, void *arg)
{
    shape s = shape_of(&p->format, p->dim);
    const uint16_t *counts = p->crd[COUNTS].data, *index = p->crd[INDEX].data;
    int64_t columns = p->crd[INDEX].dim[0], elements = p->pattern ? INT64_MAX : p->values.dim[0];
    int64_t at = 0, position = 0, buckets = columns ? p->crd[COUNTS].dim[0] : 0;
    for (int64_t b = 0; b < buckets; b++) {
        int64_t segment = b / PATTERNS, n = SP_MIN(counts[b], columns - at);
        for (int64_t i = at; i < at + n; i++)
            for (int r = 0; r < ROWS; r++) {
                if (!((b % PATTERNS) >> r & 1)) continue;
                int64_t place[2] = {segment % s.strips * ROWS + r, segment / s.strips * s.width + index[i]};
                if (place[0] >= s.rows || place[1] >= s.cols || position >= elements)
                    return sp_fail(cx, SPARTA_E_FORMAT, "packed: quads: the storage changed");
                SP_TRY(visit(arg, place, p, position++));
            }
        at += n;
        if (b % (PATTERNS * 64) == 0) SP_TRY(sp_check_cancel(cx));
    }
    return SPARTA_OK;
}

const sp_opaque sp_opaque_quads = {.name = "quads",
                                   .arguments = 1,
                                   .most = WIDEST,
                                   .usage = "quads or quads(K): K columns to a block, 1 to 65536",
                                   .array = {"counts", "index"},
                                   .check = check,
                                   .pack = pack,
                                   .verify = verify,
                                   .walk = walk};
