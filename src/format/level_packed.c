/* packed[w]: w coordinates for every parent, and no positions to store; packed[auto]: as many as the longest
 * segment needs.
 *
 *      row 0   . a . b        crd  1 3   position = parent * w + slot
 *      row 1   . . . .             0 0   padding: value 0, the last coordinate (0 where there is none)
 *      row 2   . . c .             2 2
 */
#include "format/level.h"

static sparta_status assemble(sparta_ctx *cx, sparta_assembly *a)
{
    return sparta_fixed_assemble(cx, a, a->level->w);
}

static sparta_status verify(sparta_ctx *cx, sparta_level_view *v)
{
    return sparta_fixed_verify(cx, v, v->level->w);
}

const sparta_level_ops sparta_level_ops_PACKED = {assemble,
                                                  verify,
                                                  sparta_fixed_segment,
                                                  sparta_fixed_coordinate,
                                                  sparta_fixed_padding,
                                                  sparta_fixed_doubtful};
