/* quads: how they are checked and walked; opaque_quads.h draws them. */
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
                                   .verify = verify,
                                   .walk = walk};
