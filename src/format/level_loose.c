/* loose: compressed with room between the segments: pos holds where each begins and ends.
 *
 *      parent      0        1     2
 *      pos         0  2     2  2  4  5        lo, hi of each: positions lo .. hi-1
 *      crd         1  3     -  -  0           positions 2 and 3 belong to nobody
 *
 * Pack leaves no room; who edits storage may. Segments lie in the order of their parents and do not overlap.
 */
#include "format/level.h"

static sparta_status verify(sparta_ctx *cx, sp_level_view *v)
{
    int64_t n = v->crd_n, last = 0;
    sparta_dtype pw = v->level->pos;
    if (v->pos->dim[0] % 2 || v->pos->dim[0] / 2 != v->parents)
        return sp_fail(cx, SPARTA_E_FORMAT,
                       "packed: level %d: pos has %lld entries for %lld segments; it needs two for each",
                       v->number, (long long)v->pos->dim[0], (long long)v->parents);
    for (int64_t p = 0; p < v->parents; p++) {
        int64_t lo = sp_index_get(pw, v->pos->data, 2 * p);
        int64_t hi = sp_index_get(pw, v->pos->data, 2 * p + 1);
        if (lo < last || hi < lo || hi > n)
            return sp_fail(cx, SPARTA_E_FORMAT,
                           "packed: level %d: segment %lld is %lld to %lld after %lld; segments must not "
                           "overlap, nor pass %lld",
                           v->number, (long long)p, (long long)lo, (long long)hi, (long long)last,
                           (long long)n);
        SP_TRY(sp_coordinates_verify(cx, v, p, lo, hi));
        last = hi;
    }
    v->size = n;
    return SPARTA_OK;
}

static void segment(const sp_level_view *v, int64_t parent, int64_t *lo, int64_t *hi)
{
    int64_t a = sp_index_get(v->level->pos, v->pos->data, 2 * parent);
    int64_t b = sp_index_get(v->level->pos, v->pos->data, 2 * parent + 1);
    bool inside = a >= 0 && a <= b && b <= v->size;
    *lo = inside ? a : 0;
    *hi = inside ? b : 0;
}

const sp_level_ops sp_level_ops_LOOSE = {verify, segment, sp_coordinates_get, NULL, NULL};
