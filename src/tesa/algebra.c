/* The algebra of masks whose elements keep their size: and, or, not, slices, unions; whole words a step.
 *
 * Every function keeps the one invariant: padding bits are 0. A mask without words may have very many rows (a
 * file declares them for nothing), so no loop runs over rows before it knows that there are words.
 */
#include "tesa/words.h"
#include <string.h>

static sparta_status same_shape(sparta_ctx *cx, const sp_mask *a, const sp_mask *b)
{
    if (a->rows == b->rows && a->cols == b->cols) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_SHAPE, "mask: %lldx%lld and %lldx%lld differ; masks must have one shape",
                   (long long)a->rows, (long long)a->cols, (long long)b->rows, (long long)b->cols);
}

/* ------------------------------------------------------------------ element by element */

sparta_status sp_mask_and(sparta_ctx *cx, sp_mask *a, const sp_mask *b)
{
    SP_TRY(same_shape(cx, a, b));
    for (int64_t i = 0; i < a->rows * a->words; i++) a->bits[i] &= b->bits[i];
    return SPARTA_OK;
}

sparta_status sp_mask_or(sparta_ctx *cx, sp_mask *a, const sp_mask *b)
{
    SP_TRY(same_shape(cx, a, b));
    for (int64_t i = 0; i < a->rows * a->words; i++) a->bits[i] |= b->bits[i];
    return SPARTA_OK;
}

sparta_status sp_mask_andnot(sparta_ctx *cx, sp_mask *a, const sp_mask *b)
{
    SP_TRY(same_shape(cx, a, b));
    for (int64_t i = 0; i < a->rows * a->words; i++) a->bits[i] &= ~b->bits[i];
    return SPARTA_OK;
}

void sp_mask_not(sp_mask *m)
{
    if (!m->words) return;
    uint64_t last = sp_low(m->cols - (m->words - 1) * WORD);
    for (int64_t i = 0; i < m->rows * m->words; i++) m->bits[i] = ~m->bits[i];
    for (int64_t n = 0; n < m->rows; n++) sp_mask_row(m, n)[m->words - 1] &= last;
}

bool sp_mask_equal(const sp_mask *a, const sp_mask *b)
{
    return a->rows == b->rows && a->cols == b->cols &&
           (!a->words || !memcmp(a->bits, b->bits, (size_t)(a->rows * a->words) * sizeof *a->bits));
}

bool sp_mask_within(const sp_mask *a, const sp_mask *b)
{
    if (a->rows != b->rows || a->cols != b->cols) return false;
    uint64_t outside = 0;
    for (int64_t i = 0; i < a->rows * a->words; i++) outside |= a->bits[i] & ~b->bits[i];
    return !outside;
}

/* ------------------------------------------------------------------ moved and repeated */

sparta_status sp_mask_copy(sparta_ctx *cx, const sp_mask *m, sp_mask *out)
{
    sp_mask copy;
    SP_TRY(sp_mask_create(cx, m->rows, m->cols, &copy));
    if (m->words) memcpy(copy.bits, m->bits, (size_t)(m->rows * m->words) * sizeof *m->bits);
    *out = copy;
    return SPARTA_OK;
}

sparta_status sp_mask_slice(sparta_ctx *cx, const sp_mask *m, const int64_t n[2], const int64_t k[2],
                            sp_mask *out)
{
    if (n[0] < 0 || n[1] < n[0] || n[1] > m->rows || k[0] < 0 || k[1] < k[0] || k[1] > m->cols)
        return sp_fail(cx, SPARTA_E_SHAPE,
                       "slice: rows %lld..%lld and columns %lld..%lld are not inside %lldx%lld",
                       (long long)n[0], (long long)n[1], (long long)k[0], (long long)k[1], (long long)m->rows,
                       (long long)m->cols);
    sp_mask part;
    SP_TRY(sp_mask_create(cx, n[1] - n[0], k[1] - k[0], &part));
    for (int64_t i = 0; part.words && i < part.rows; i++)
        sp_bits_copy(sp_mask_row(&part, i), 0, sp_mask_row(m, n[0] + i), k[0], part.cols);
    *out = part;
    return SPARTA_OK;
}

/* The shape of the whole; the sizes that must agree do. */
static sparta_status concat_shape(sparta_ctx *cx, sp_along axis, const sp_mask *const *part, int parts,
                                  int64_t shape[2])
{
    if (parts < 1) return sp_fail(cx, SPARTA_E_USAGE, "concat: no masks; give at least one");
    shape[0] = part[0]->rows, shape[1] = part[0]->cols;
    for (int i = 1; i < parts; i++) {
        int64_t dim[2] = {part[i]->rows, part[i]->cols};
        if (dim[!axis] != shape[!axis])
            return sp_fail(cx, SPARTA_E_SHAPE, "concat: mask %d has %lld %s, mask 0 has %lld", i,
                           (long long)dim[!axis], axis == SP_ALONG_ROWS ? "columns" : "rows",
                           (long long)shape[!axis]);
        if (!sp_int_add(shape[axis], dim[axis], &shape[axis]))
            return sp_fail(cx, SPARTA_E_SHAPE, "concat: %d masks have too many elements together", parts);
    }
    return SPARTA_OK;
}

sparta_status sp_mask_concat(sparta_ctx *cx, sp_along axis, const sp_mask *const *part, int parts,
                             sp_mask *out)
{
    int64_t shape[2], row = 0, col = 0;
    SP_TRY(concat_shape(cx, axis, part, parts, shape));
    sp_mask whole;
    SP_TRY(sp_mask_create(cx, shape[0], shape[1], &whole));
    for (int p = 0; p < parts; p++) {
        const sp_mask *m = part[p];
        for (int64_t n = 0; m->words && n < m->rows; n++)
            sp_bits_copy(sp_mask_row(&whole, row + n), col, sp_mask_row(m, n), 0, m->cols);
        if (axis == SP_ALONG_ROWS)
            row += m->rows;
        else
            col += m->cols;
    }
    *out = whole;
    return SPARTA_OK;
}

sparta_status sp_mask_broadcast(sparta_ctx *cx, const sp_mask *m, int64_t rows, int64_t cols, sp_mask *out)
{
    if ((m->rows != rows && m->rows != 1) || (m->cols != cols && m->cols != 1))
        return sp_fail(cx, SPARTA_E_SHAPE,
                       "broadcast: %lldx%lld does not repeat to %lldx%lld; only a size of 1 repeats",
                       (long long)m->rows, (long long)m->cols, (long long)rows, (long long)cols);
    sp_mask wide;
    SP_TRY(sp_mask_create(cx, rows, cols, &wide));
    for (int64_t n = 0; wide.words && n < rows; n++) {
        const uint64_t *source = sp_mask_row(m, m->rows == 1 ? 0 : n);
        if (m->cols == cols)
            memcpy(sp_mask_row(&wide, n), source, (size_t)wide.words * sizeof *source);
        else if (source[0] & 1)
            sp_bits_fill(sp_mask_row(&wide, n), 0, cols);
    }
    *out = wide;
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

/* ------------------------------------------------------------------ unions */

sparta_status sp_mask_reduce(sparta_ctx *cx, const sp_mask *m, sp_along axis, sp_mask *out)
{
    bool over_rows = axis == SP_ALONG_ROWS;
    sp_mask any;
    SP_TRY(sp_mask_create(cx, over_rows ? 1 : m->rows, over_rows ? m->cols : 1, &any));
    for (int64_t n = 0; m->words && n < m->rows; n++) {
        const uint64_t *row = sp_mask_row(m, n);
        uint64_t in_row = 0;
        for (int64_t j = 0; j < m->words; j++) {
            if (over_rows) any.bits[j] |= row[j];
            in_row |= row[j];
        }
        if (!over_rows) any.bits[n] = in_row != 0;
    }
    *out = any;
    return SPARTA_OK;
}

sparta_status sp_mask_product(sparta_ctx *cx, const sp_mask *a, const sp_mask *b, sp_mask *out)
{
    if (a->cols != b->rows)
        return sp_fail(cx, SPARTA_E_SHAPE, "product: K is %lld on the left and %lld on the right",
                       (long long)a->cols, (long long)b->rows);
    sp_mask c;
    SP_TRY(sp_mask_create(cx, a->rows, b->cols, &c));
    for (int64_t n = 0; a->words && c.words && n < a->rows; n++) {
        const uint64_t *left = sp_mask_row(a, n);
        uint64_t *to = sp_mask_row(&c, n);
        for (int64_t k = sp_bits_next(left, 0, a->cols); k < a->cols; k = sp_bits_next(left, k + 1, a->cols))
            for (int64_t j = 0; j < c.words; j++) to[j] |= sp_mask_row(b, k)[j];
        sparta_status status = n % 64 ? SPARTA_OK : sp_check_cancel(cx);
        if (status) {
            sp_mask_free(cx, &c);
            return status;
        }
    }
    *out = c;
    return SPARTA_OK;
}
