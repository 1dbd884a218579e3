/* singleton: exactly one coordinate for every parent: packed[1].
 *
 *      (i:compressed(nonunique), j:singleton)      crd of i   0 0 2
 *                                                  crd of j   1 3 2      position = parent
 *
 * soa: an array of its own; aos: beside the coordinates of the level above, (0,1) (0,3) (2,2).
 */
#include "format/level.h"

static sparta_status verify(sparta_ctx *cx, sp_level_view *v)
{
    return sp_fixed_verify(cx, v, 1);
}

const sp_level_ops sp_level_ops_SINGLETON = {verify, sp_fixed_segment, sp_fixed_coordinate, sp_fixed_padding,
                                             sp_fixed_doubtful};
