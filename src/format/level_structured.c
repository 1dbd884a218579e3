/* structured[n,m]: n of each m: packed[n] over the coordinates j%m, which may be as narrow as 2 bits.
 *
 *      j/4:dense, j%4:structured[2,4]     . a . b  c . . .     crd  1 3  0 0
 *                                                              u2   byte 0: 3<<2 | 1, byte 1: 0
 *
 * Widths u2 and u4 lie in bytes, the first in the low bits, and each segment begins on a byte.
 */
#include "format/level.h"

static sparta_status verify(sparta_ctx *cx, sp_level_view *v)
{
    return sp_fixed_verify(cx, v, v->level->w);
}

const sp_level_ops sp_level_ops_STRUCTURED = {verify, sp_fixed_segment, sp_fixed_coordinate, sp_fixed_padding,
                                              sp_fixed_doubtful};
