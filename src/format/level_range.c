/* range: the last level below a diagonal, j-i or i+j: every coordinate of one of the two, nothing stored.
 *
 *      (j-i:compressed, i:range)       a . b     crd     0  2           j-i, ascending
 *                                      . c .     values  a c d   b 0 0  [diagonals][rows]
 *                                      . . d
 *
 * A slot whose other coordinate lies outside the tensor is 0 (the walker sees to it). Positions are those of a
 * dense level: it is one, but for how its coordinate is read.
 */
#include "format/level.h"

static sparta_status verify(sparta_ctx *cx, sp_level_view *v)
{
    return sp_level_ops_DENSE.verify(cx, v);
}

static int64_t coordinate(sp_level_view *v, int64_t parent, int64_t position)
{
    return position - parent * v->extent;
}

const sp_level_ops sp_level_ops_RANGE = {verify, sp_fixed_segment, coordinate, NULL, NULL};
