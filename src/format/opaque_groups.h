/* groups: the columns of each strip of 4 rows, four at a time, as 8-bit dot products want them (a dword of 4 inputs for each of 4
 * outputs):
 *
 *              k 0 1 2 3 4 5          pos     0           2        groups of each strip
 *      row 0     a . . d . h          index   0 2 3 4   5 5 5 5    columns that have anything, u16; the last repeats
 *      row 1     b . c . . .          values  a 0 d 0   h 0 0 0    a tile of 4 rows x 4 columns for each group
 *      row 2     . . . e . .                  b c 0 0   0 0 0 0
 *      row 3     . . . f g .                  0 0 e 0   0 0 0 0
 *                                             0 0 f g   0 0 0 0
 *
 * A zero is an absent element.
 */
#ifndef SP_FORMAT_OPAQUE_GROUPS_H
#define SP_FORMAT_OPAQUE_GROUPS_H

#include "format/format.h"

enum { POS, INDEX, ROWS = 4, COLUMNS = 4, TILE = ROWS * COLUMNS, WIDEST = 1 << 16 };

static inline int64_t strips_of(const int64_t *dim)
{
    return dim[0] / ROWS + (dim[0] % ROWS != 0);
}

#endif
