/* Spans: bits moved along the axes of a tensor, up to 64 a step. */
#include "tesa/span.h"
#include <string.h>

/* How a mask sees an axis. */
typedef struct {
    bool rows;            /* the axis is the rows */
    int64_t outer, inner; /* within a row */
} along;

static along look(int rank, const int64_t *extent, int axis)
{
    along a = {.rows = axis == 0 && rank > 1, .outer = 1, .inner = 1};
    for (int i = 1; i < axis; i++) a.outer *= extent[i];
    for (int i = axis + 1; i < rank; i++) a.inner *= extent[i];
    return a;
}

sparta_status sp_span_create(sparta_ctx *cx, int rank, const int64_t *extent, sp_span *out)
{
    if (rank < 1 || rank > SP_TESA_RANK)
        return sp_fail(cx, SPARTA_E_SHAPE, "set: %d dimensions; 1 to %d are possible", rank, SP_TESA_RANK);
    int64_t rows = rank > 1 ? extent[0] : 1, cols = 1;
    bool fits = true, negative = false;
    for (int i = 0; i < rank; i++) negative |= extent[i] < 0;
    for (int i = rank > 1; i < rank && !negative; i++) fits &= sp_int_mul(cols, extent[i], &cols);
    if (!fits || negative)
        return sp_fail(cx, SPARTA_E_SHAPE, "set: %s",
                       negative ? "an extent is negative" : "too many elements");
    sp_mask m;
    SP_TRY(sp_mask_create(cx, rows, cols, &m));
    *out = (sp_span){.rank = rank, .mask = m};
    memcpy(out->extent, extent, (size_t)rank * sizeof *extent);
    return SPARTA_OK;
}

bool sp_extents_join(int rank, const int64_t *a, const int64_t *b, int64_t *out)
{
    for (int i = 0; i < rank; i++) {
        if (a[i] != b[i] && a[i] != 1 && b[i] != 1) return false;
        out[i] = a[i] == 1 ? b[i] : a[i];
    }
    return true;
}

/* The same bits, with `extent[axis]` changed to size. */
static sparta_status create_like(sparta_ctx *cx, const sp_span *s, int axis, int64_t size, sp_span *out)
{
    int64_t extent[SP_TESA_RANK];
    memcpy(extent, s->extent, sizeof extent);
    extent[axis] = size;
    return sp_span_create(cx, s->rank, extent, out);
}

static bool nothing(const sp_span *s)
{
    return !s->mask.words || !s->mask.rows;
}

/* ------------------------------------------------------------------ along one axis */

static sparta_status repeat(sparta_ctx *cx, const sp_span *s, int axis, int64_t size, sp_span *out)
{
    sp_span to;
    SP_TRY(create_like(cx, s, axis, size, &to));
    along a = look(s->rank, s->extent, axis);
    for (int64_t r = 0; !nothing(&to) && r < to.mask.rows; r++) {
        const uint64_t *from = sp_mask_row(&s->mask, a.rows ? 0 : r);
        uint64_t *row = sp_mask_row(&to.mask, r);
        if (a.rows) memcpy(row, from, (size_t)to.mask.words * sizeof *row);
        for (int64_t o = 0; !a.rows && o < a.outer; o++) {
            if (a.inner == 1 && from[o / WORD] >> (o % WORD) & 1) sp_bits_fill(row, o * size, (o + 1) * size);
            for (int64_t i = 0; a.inner > 1 && i < size; i++)
                sp_bits_copy(row, (o * size + i) * a.inner, from, o * a.inner, a.inner);
        }
    }
    *out = to;
    return SPARTA_OK;
}

sparta_status sp_span_slice(sparta_ctx *cx, const sp_span *s, int axis, int64_t from, int64_t end,
                            sp_span *out)
{
    if (from < 0 || end < from || end > s->extent[axis])
        return sp_fail(cx, SPARTA_E_SHAPE, "slice: %lld..%lld is not inside axis %d of size %lld",
                       (long long)from, (long long)end, axis, (long long)s->extent[axis]);
    sp_span to;
    SP_TRY(create_like(cx, s, axis, end - from, &to));
    along a = look(s->rank, s->extent, axis);
    int64_t size = (end - from) * a.inner;
    for (int64_t r = 0; !nothing(&to) && r < to.mask.rows; r++)
        for (int64_t o = 0; o < (a.rows ? 1 : a.outer); o++)
            sp_bits_copy(sp_mask_row(&to.mask, r), a.rows ? 0 : o * size,
                         sp_mask_row(&s->mask, a.rows ? from + r : r),
                         a.rows ? 0 : (o * s->extent[axis] + from) * a.inner, a.rows ? to.mask.cols : size);
    *out = to;
    return SPARTA_OK;
}

sparta_status sp_span_concat(sparta_ctx *cx, int axis, const sp_span *part, int parts, sp_span *out)
{
    int64_t all = 0, at = 0;
    for (int p = 0; p < parts; p++)
        if (!sp_int_add(all, part[p].extent[axis], &all))
            return sp_fail(cx, SPARTA_E_SHAPE, "concat: %d parts have too many elements together", parts);
    sp_span to;
    SP_TRY(create_like(cx, &part[0], axis, all, &to));
    along a = look(to.rank, to.extent, axis);
    for (int p = 0; p < parts; at += part[p].extent[axis], p++) {
        int64_t size = part[p].extent[axis] * a.inner;
        for (int64_t r = 0; !nothing(&part[p]) && r < part[p].mask.rows; r++)
            for (int64_t o = 0; o < (a.rows ? 1 : a.outer); o++)
                sp_bits_copy(sp_mask_row(&to.mask, a.rows ? at + r : r),
                             a.rows ? 0 : (o * all + at) * a.inner, sp_mask_row(&part[p].mask, r),
                             a.rows ? 0 : o * size, a.rows ? to.mask.cols : size);
    }
    *out = to;
    return SPARTA_OK;
}

sparta_status sp_span_reduce(sparta_ctx *cx, const sp_span *s, int axis, sp_span *out)
{
    sp_span to;
    SP_TRY(create_like(cx, s, axis, 1, &to));
    along a = look(s->rank, s->extent, axis);
    int64_t size = s->extent[axis];
    for (int64_t r = 0; !nothing(s) && r < s->mask.rows; r++) {
        const uint64_t *from = sp_mask_row(&s->mask, r);
        uint64_t *row = sp_mask_row(&to.mask, a.rows ? 0 : r);
        if (a.rows) sp_bits_copy(row, 0, from, 0, to.mask.cols);
        for (int64_t o = 0; !a.rows && o < a.outer; o++)
            for (int64_t i = 0; i < size; i++)
                sp_bits_copy(row, o * a.inner, from, (o * size + i) * a.inner, a.inner);
    }
    *out = to;
    return SPARTA_OK;
}

/* Bits [from, from + n) and [from + apart, ..) of a row are the same. */
static bool same_bits(const uint64_t *row, int64_t from, int64_t apart, int64_t n)
{
    for (int64_t i = 0; i < n; i += WORD) {
        int64_t some = SP_MIN(WORD, n - i);
        if (sp_bits_get(row, from + i, some) != sp_bits_get(row, from + apart + i, some)) return false;
    }
    return true;
}

bool sp_span_alike(const sp_span *s, int axis)
{
    int64_t size = s->extent[axis];
    if (size <= 1 || nothing(s)) return true;
    along a = look(s->rank, s->extent, axis);
    for (int64_t r = a.rows; r < s->mask.rows; r++) {
        const uint64_t *row = sp_mask_row(&s->mask, r);
        if (a.rows && memcmp(row, s->mask.bits, (size_t)s->mask.words * sizeof *row)) return false;
        for (int64_t o = 0; !a.rows && o < a.outer; o++)
            if (!same_bits(row, o * size * a.inner, a.inner, (size - 1) * a.inner)) return false;
    }
    return true;
}

/* ------------------------------------------------------------------ along several */

/* One change after the other: `next` replaces what is there. */
static void replace(sparta_ctx *cx, sp_span *s, bool *own, const sp_span *next)
{
    if (*own) sp_mask_free(cx, &s->mask);
    *s = *next, *own = true;
}

sparta_status sp_span_widen(sparta_ctx *cx, const sp_span *s, const int64_t *extent, sp_span *out)
{
    sp_span at = *s, next;
    bool own = false;
    sparta_status status = SPARTA_OK;
    for (int i = s->rank - 1; i >= 0 && !status; i--) { /* last axes first: long runs stay long */
        if (at.extent[i] == extent[i]) continue;
        status = at.extent[i] == 1 ? repeat(cx, &at, i, extent[i], &next)
                                   : sp_fail(cx, SPARTA_E_SHAPE, "set: axis %d has %lld, %lld are asked for",
                                             i, (long long)at.extent[i], (long long)extent[i]);
        if (!status) replace(cx, &at, &own, &next);
    }
    if (!status && !own) {
        status = sp_mask_copy(cx, &s->mask, &at.mask);
        own = !status;
    }
    if (status && own) sp_mask_free(cx, &at.mask);
    if (!status) *out = at;
    return status;
}

/* In place: a failure leaves the span as it was, or less wide. */
sparta_status sp_span_settle(sparta_ctx *cx, sp_span *s)
{
    static const int64_t ones[SP_TESA_RANK] = {1, 1, 1, 1, 1, 1};
    sp_span next;
    bool empty = nothing(s);
    for (int i = 0; i < s->rank; i++) {
        if ((empty && s->extent[i]) || s->extent[i] == 1 || !sp_span_alike(s, i)) continue;
        if (s->extent[i]) /* without elements there is nothing to tell apart */
            SP_TRY(sp_span_slice(cx, s, i, 0, 1, &next));
        else
            SP_TRY(sp_span_create(cx, s->rank, ones, &next));
        sp_mask_free(cx, &s->mask);
        *s = next;
    }
    return SPARTA_OK;
}

sparta_status sp_span_raise(sparta_ctx *cx, const sp_span *s, int rank, sp_span *out)
{
    int64_t extent[SP_TESA_RANK];
    int more = rank - s->rank;
    for (int i = 0; i < rank && i < SP_TESA_RANK; i++) extent[i] = i < more ? 1 : s->extent[i - more];
    sp_span to;
    SP_TRY(sp_span_create(cx, rank, extent, &to));
    for (int64_t r = 0; !nothing(s) && r < s->mask.rows; r++) /* rows may become columns */
        sp_bits_copy(sp_mask_row(&to.mask, more ? 0 : r), more ? r * s->mask.cols : 0,
                     sp_mask_row(&s->mask, r), 0, s->mask.cols);
    *out = to;
    return SPARTA_OK;
}

void sp_span_index(const sp_span *s, int64_t row, int64_t col, int64_t *index)
{
    for (int i = s->rank - 1; i >= (s->rank > 1); i--) {
        index[i] = col % s->extent[i];
        col /= s->extent[i];
    }
    if (s->rank > 1) index[0] = row;
}

void sp_span_place(const sp_span *s, const int64_t *index, int64_t *row, int64_t *col)
{
    *row = s->rank > 1 && s->extent[0] > 1 ? index[0] : 0;
    *col = 0;
    for (int i = s->rank > 1; i < s->rank; i++)
        *col = *col * s->extent[i] + (s->extent[i] > 1 ? index[i] : 0);
}

static bool is_swap(int rank, const int *order)
{
    return rank == 2 && order[0] == 1 && order[1] == 0;
}

sparta_status sp_span_permute(sparta_ctx *cx, const sp_span *s, const int *order, sp_span *out)
{
    int64_t extent[SP_TESA_RANK], from[SP_TESA_RANK], to[SP_TESA_RANK], row, col;
    unsigned seen = 0;
    for (int i = 0; i < s->rank; i++) {
        if (order[i] < 0 || order[i] >= s->rank || seen >> order[i] & 1)
            return sp_fail(cx, SPARTA_E_USAGE,
                           "transpose: axis %d at place %d; give a permutation of %d axes", order[i], i,
                           s->rank);
        seen |= 1U << order[i];
        extent[i] = s->extent[order[i]];
    }
    sp_span t = {.rank = s->rank};
    memcpy(t.extent, extent, sizeof extent);
    if (is_swap(s->rank, order))
        SP_TRY(sp_mask_transpose(cx, &s->mask, &t.mask));
    else
        SP_TRY(sp_span_create(cx, s->rank, extent, &t));
    for (int64_t r = 0; !is_swap(s->rank, order) && !nothing(s) && r < s->mask.rows; r++)
        for (int64_t c = sp_bits_next(sp_mask_row(&s->mask, r), 0, s->mask.cols); c < s->mask.cols;
             c = sp_bits_next(sp_mask_row(&s->mask, r), c + 1, s->mask.cols)) {
            sp_span_index(s, r, c, from);
            for (int i = 0; i < s->rank; i++) to[i] = from[order[i]];
            sp_span_place(&t, to, &row, &col);
            sp_mask_set(&t.mask, row, col);
        }
    *out = t;
    return SPARTA_OK;
}
