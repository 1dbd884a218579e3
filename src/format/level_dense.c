/* dense: every coordinate is there, nothing is stored.
 *
 *      parent      0           1
 *      coordinate  0  1  2     0  1  2
 *      position    0  1  2     3  4  5        parent * extent + coordinate
 */
#include "format/level.h"

static sparta_status size_of(sparta_ctx *cx, int number, int64_t parents, int64_t extent, int64_t *size)
{
    if (!sparta_int_mul(parents, extent, size))
        return sparta_fail(cx, SPARTA_E_LIMIT,
                           "format: level %d would have %lld times %lld positions, more than 64 bits count",
                           number, (long long)parents, (long long)extent);
    return SPARTA_OK;
}

static sparta_status assemble(sparta_ctx *cx, sparta_assembly *a)
{
    SPARTA_TRY(size_of(cx, a->number, a->parents, a->extent, &a->size));
    for (int64_t e = 0; e < a->n; e++) a->at[e] = a->at[e] * a->extent + a->coord[e];
    return SPARTA_OK;
}

static sparta_status verify(sparta_ctx *cx, const sparta_level_view *v, int64_t *size)
{
    return size_of(cx, v->number, v->parents, v->extent, size);
}

static void segment(const sparta_level_view *v, int64_t parent, int64_t *lo, int64_t *hi)
{
    *lo = parent * v->extent;
    *hi = *lo + v->extent;
}

static int64_t coordinate(const sparta_level_view *v, int64_t parent, int64_t position)
{
    return position - parent * v->extent;
}

const sparta_level_ops sparta_level_ops_DENSE = {assemble, verify, segment, coordinate};
