/* ragged: every coordinate up to a length of each parent's own.
 *
 *      row 0   a b . .        pos         0        2  2           5
 *      row 1   . . . .        position    0  1        2  3  4
 *      row 2   . c d .        coordinate  0  1        0  1  2      (position 2 is a 0)
 */
#include "format/level.h"

static sparta_status verify(sparta_ctx *cx, sp_level_view *v)
{
    int64_t edges = v->pos->dim[0];
    if (edges > 0) v->size = sp_index_get(v->level->pos, v->pos->data, edges - 1);
    if (v->size < 0) v->size = 0; /* refused below: it falls */
    SP_TRY(sp_edges_verify(cx, v, v->size));
    for (int64_t p = 0; p < v->parents; p++) {
        int64_t lo, hi;
        sp_edges_segment(v, p, &lo, &hi);
        if (hi - lo > v->extent)
            return sp_fail(cx, SPARTA_E_FORMAT,
                           "packed: level %d: segment %lld has %lld positions, coordinates are below %lld",
                           v->number, (long long)p, (long long)(hi - lo), (long long)v->extent);
    }
    return SPARTA_OK;
}

static int64_t coordinate(sp_level_view *v, int64_t parent, int64_t position)
{
    int64_t lo, hi;
    sp_edges_segment(v, parent, &lo, &hi);
    return position >= lo && position - lo < v->extent ? position - lo : -1;
}

const sp_level_ops sp_level_ops_RAGGED = {verify, sp_edges_segment, coordinate, NULL, NULL};
