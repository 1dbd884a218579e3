/* quads: how they are checked and walked; opaque_quads.h draws them. */
#include "format/ascend.h"
#include "format/opaque_quads.h"
#include "format/walk.h"
#include <string.h>

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

typedef struct {        /* the buckets of one strip in one block */
    int64_t number, at; /* of the segment; of its first column */
    const uint16_t *counts;
    int64_t rows, room; /* of the strip, of the block */
} bucket_list;

/* The same as buckets_good, bucket by bucket: says what is wrong. */
static sparta_status buckets_fail(sparta_ctx *cx, const bucket_list *g, const sp_packed *p)
{
    const uint16_t *index = p->crd[INDEX].data;
    const int64_t columns = p->crd[INDEX].dim[0];
    int64_t at = g->at;
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        const int64_t n = g->counts[pattern];
        int64_t last = -1;
        if (n > columns - at)
            return sp_fail(
                cx, SPARTA_E_FORMAT, "packed: quads: counts[%lld] is %lld, index has %lld entries left",
                (long long)(g->number * PATTERNS + pattern), (long long)n, (long long)(columns - at));
        if (n && (!pattern || pattern >> g->rows))
            return sp_fail(cx, SPARTA_E_FORMAT,
                           "packed: quads: counts[%lld] is %lld, but the strip has %lld rows",
                           (long long)(g->number * PATTERNS + pattern), (long long)n, (long long)g->rows);
        for (int64_t i = at; i < at + n; last = index[i++])
            if (index[i] >= g->room || index[i] <= last)
                return sp_fail(cx, SPARTA_E_FORMAT,
                               "packed: quads: index[%lld] is %d after %lld; the columns of a bucket ascend "
                               "and are below %lld",
                               (long long)i, index[i], (long long)last, (long long)g->room);
        at += n;
    }
    return sp_fail(cx, SPARTA_E_INTERNAL, "packed: quads: segment %lld is wrong, its buckets are not",
                   (long long)g->number);
}

/* Are its columns in range, do they ascend in each bucket, and are its patterns of rows that there are? */
static bool buckets_good(const bucket_list *g, const uint16_t *index, int64_t n)
{
    const sp_ascent found = sp_ascent_of(index + g->at, n);
    const uint16_t *first = index + g->at, *at = first;
    int64_t falls = 0, wrong = g->counts[0];
    for (int pattern = 1; pattern < PATTERNS; pattern++) { /* falls from a bucket to the next are right */
        const int64_t count = g->counts[pattern];
        if (count && at > first) falls += at[0] <= at[-1];
        if (pattern >> g->rows) wrong += count;
        at += count;
    }
    return !wrong && found.falls == falls && (!n || found.most < g->room);
}

/* Columns and elements of the buckets of a segment. */
static void buckets_size(const uint16_t *counts, int64_t *columns, int64_t *elements)
{
    static const int rows[PATTERNS] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
    int all = 0, of = 0; /* 16 times 65535 times 4 at most */
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        all += counts[pattern];
        of += counts[pattern] * rows[pattern];
    }
    *columns = all;
    *elements = of;
}

static sparta_status buckets_verify(sparta_ctx *cx, const sp_packed *p, const shape *s)
{
    const uint16_t *counts = p->crd[COUNTS].data, *index = p->crd[INDEX].data;
    const int64_t columns = p->crd[INDEX].dim[0];
    int64_t all = 0;
    bucket_list g = {0};
    for (int64_t block = 0; block < s->blocks; block++)
        for (int64_t strip = 0; strip < s->strips; strip++, g.number++) {
            int64_t n, elements;
            g.counts = counts + g.number * PATTERNS;
            g.rows = SP_MIN(ROWS, s->rows - strip * ROWS);
            g.room = SP_MIN(s->width, s->cols - block * s->width);
            buckets_size(g.counts, &n, &elements);
            if (n > columns - g.at || !buckets_good(&g, index, n)) return buckets_fail(cx, &g, p);
            g.at += n;
            all += elements;
        }
    if (g.at != columns)
        return sp_fail(cx, SPARTA_E_FORMAT, "packed: quads: counts say %lld columns, index has %lld",
                       (long long)g.at, (long long)columns);
    return sp_values_check(cx, p, false, all);
}

static sparta_status verify(sparta_ctx *cx, const sp_packed *p)
{
    const shape s = shape_of(&p->format, p->dim);
    const int64_t buckets = s.blocks * s.strips * PATTERNS;
    SP_TRY(sp_array_check(cx, &p->crd[COUNTS], SPARTA_U16, "counts"));
    SP_TRY(sp_array_check(cx, &p->crd[INDEX], SPARTA_U16, "index"));
    if (p->crd[COUNTS].dim[0] != buckets)
        return sp_fail(cx, SPARTA_E_FORMAT,
                       "packed: quads: counts has %lld entries, %lld blocks of %lld strips need %lld",
                       (long long)p->crd[COUNTS].dim[0], (long long)s.blocks, (long long)s.strips,
                       (long long)buckets);
    return buckets_verify(cx, p, &s);
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
                                   .verify = verify,
                                   .walk = walk};
