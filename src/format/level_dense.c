/* dense: every coordinate is there, nothing is stored.
 *
 *      parent      0           1
 *      coordinate  0  1  2     0  1  2
 *      position    0  1  2     3  4  5        parent * extent + coordinate
 */
#include "format/level.h"

static sparta_status assemble(sparta_ctx *cx, sp_assembly *a)
{
    SP_TRY(sp_assembly_product(cx, a->number, a->parents, a->extent, &a->size));
    a->longest = a->parents ? a->extent : 0;
    for (int64_t e = 0; e < a->n; e++) a->at[e] = a->at[e] * a->extent + a->coord[e];
    return SPARTA_OK;
}

static sparta_status verify(sparta_ctx *cx, sp_level_view *v)
{
    v->width = v->extent;
    return sp_assembly_product(cx, v->number, v->parents, v->extent, &v->size);
}

static int64_t coordinate(sp_level_view *v, int64_t parent, int64_t position)
{
    return position - parent * v->extent;
}

const sp_level_ops sp_level_ops_DENSE = {assemble, verify, sp_fixed_segment, coordinate, NULL, NULL};
