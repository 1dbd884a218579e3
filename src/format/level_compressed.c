/* compressed: only the coordinates that are there, ascending; pos says where each parent's begin.
 *
 *      parent      0        1     2
 *      pos         0        2     2     3     its positions are pos[parent] .. pos[parent+1]-1
 *      crd         1  3           0
 *      position    0  1           2
 *
 * nonunique: a coordinate may come again, each time with a position of its own; nonordered: in any order.
 */
#include "format/level.h"

static sparta_status verify(sparta_ctx *cx, sp_level_view *v)
{
    v->size = v->crd_n;
    return sp_edges_verify(cx, v, v->size);
}

const sp_level_ops sp_level_ops_COMPRESSED = {verify, sp_edges_segment, sp_coordinates_get, NULL, NULL};
