/* pairs(K): rows two by two, for unstructured weights. K columns make a range (none: all); in each
 * range rows that have equally many elements, and if possible the same columns, make a pair:
 *
 *      k 0 1 2 3 4 5 6                jobs     0 2  4 2     rows 0 and 2: 4 columns shared, and 2 more of each
 *      row 0     a b c d e . f                 1 1  0 1     row 1 is alone: 1 column
 *      row 1     . . . x . . .        index    0 1 2 3   4 5   6 6   3        columns within the range, u16
 *      row 2     p q r s . t u        values   a b c d   p q r s   e t   f u   x
 *
 * Shared columns come in fours, first the four elements of the one row, then of the other. The others: fours of the one row and fours of
 * the other in turn, at last single ones in turn. Ranges lie one after the other; every row is in one job of each. The jobs of a range
 * are sorted by their two numbers, so that the loops of a kernel are as long as the time before and their ends no surprise.
 */
#ifndef SP_FORMAT_OPAQUE_PAIRS_H
#define SP_FORMAT_OPAQUE_PAIRS_H

#include "format/format.h"

enum { JOBS, INDEX, FOUR = 4, WORDS = 4, WIDEST = 1 << 16, LOOKED_AT = 128 };

typedef struct job { /* as it is stored: 4 numbers, u32 */
    uint32_t row[2], shared, own;
} job;

typedef struct {
    int64_t rows, cols;
    int64_t width, ranges; /* columns of a range */
} shape;

static inline shape shape_of(const sp_format *f, const int64_t *dim)
{
    shape s = {.rows = dim[1] ? dim[0] : 0, .cols = dim[1]}; /* rows without columns take no memory */
    s.width = f->argument[0] ? SP_MIN(f->argument[0], s.cols) : s.cols;
    s.width = SP_MAX(s.width, 1);
    s.ranges = s.rows ? s.cols / s.width + (s.cols % s.width != 0) : 0;
    return s;
}

/* ------------------------------------------------------------------ a job */

static inline bool alone(const job *j)
{
    return j->row[0] == j->row[1];
}
static inline int64_t columns_of(const job *j)
{
    return (int64_t)j->shared + (int64_t)j->own * (alone(j) ? 1 : 2);
}
static inline int64_t elements_of(const job *j)
{
    return columns_of(j) + j->shared;
}
/* Where the value of shared column i is; that of the second row four further on. */
static inline int64_t shared_place(int64_t i)
{
    return i / FOUR * 2 * FOUR + i % FOUR;
}
/* Of the columns that are not shared, which is the i-th of the pair's row r, and the other way round. */
static inline int64_t own_place(const job *j, int r, int64_t i)
{
    if (alone(j)) return i;
    return i < j->own / FOUR * FOUR ? i / FOUR * 2 * FOUR + r * FOUR + i % FOUR : 2 * i + r;
}
static inline int own_row(const job *j, int64_t place)
{
    if (alone(j)) return 0;
    return (int)(place < (int64_t)j->own / FOUR * 2 * FOUR ? place / FOUR % 2 : place % 2);
}

#endif
