/* packed[w]: w coordinates for every parent, and no positions to store; packed[auto]: as many as the longest
 * segment needs.
 *
 *      row 0   . a . b        crd  1 3   position = parent * w + slot
 *      row 1   . . . .             0 0   padding: value 0, the last coordinate (0 where there is none)
 *      row 2   . . c .             2 2
 */
#include "format/level.h"

static sparta_status verify(sparta_ctx *cx, sp_level_view *v)
{
    return sp_fixed_verify(cx, v, v->level->w);
}

const sp_level_ops sp_level_ops_PACKED = {verify, sp_fixed_segment, sp_fixed_coordinate, sp_fixed_padding,
                                          sp_fixed_doubtful};
