/* dense: every coordinate is there, nothing is stored.
 *
 *      parent      0           1
 *      coordinate  0  1  2     0  1  2
 *      position    0  1  2     3  4  5        parent * extent + coordinate
 */
#include "format/level.h"

static sparta_status verify(sparta_ctx *cx, sp_level_view *v)
{
    v->width = v->extent;
    return sp_level_product(cx, v->number, v->parents, v->extent, &v->size);
}

static int64_t coordinate(sp_level_view *v, int64_t parent, int64_t position)
{
    return position - parent * v->extent;
}

const sp_level_ops sp_level_ops_DENSE = {verify, sp_fixed_segment, coordinate, NULL, NULL};
