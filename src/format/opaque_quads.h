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
#ifndef SP_FORMAT_OPAQUE_QUADS_H
#define SP_FORMAT_OPAQUE_QUADS_H

#include "format/format.h"

enum { COUNTS, INDEX, ROWS = 4, PATTERNS = 1 << ROWS, WIDEST = 1 << 16 };

typedef struct {
    int64_t rows, cols;
    int64_t width, blocks, strips; /* columns of a block */
} shape;

static inline shape shape_of(const sp_format *f, const int64_t *dim)
{
    shape s = {.rows = dim[0], .cols = dim[1]};
    s.width = f->argument[0] ? SP_MIN(f->argument[0], s.cols) : s.cols;
    s.width = SP_MAX(s.width, 1);
    s.blocks = s.cols / s.width + (s.cols % s.width != 0);
    s.strips = s.rows / ROWS + (s.rows % ROWS != 0);
    return s;
}

#endif
