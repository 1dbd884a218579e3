/* groups: how they are checked and walked; opaque_groups.h draws them. */
#include "format/opaque_groups.h"
#include "format/walk.h"
#include <string.h>

static sparta_status check(sparta_ctx *cx, const sp_format *f, int rank, const int64_t *dim)
{
    int64_t all;
    (void)f;
    if (rank != 2)
        return sp_fail(cx, SPARTA_E_USAGE, "format: groups is for 2 dimensions, the tensor has %d", rank);
    if (dim[0] < 0 || dim[1] < 0)
        return sp_fail(cx, SPARTA_E_SHAPE, "format: groups: %lld x %lld is no shape", (long long)dim[0],
                       (long long)dim[1]);
    if (dim[1] > WIDEST)
        return sp_fail(cx, SPARTA_E_USAGE,
                       "format: groups: %lld columns are too many for u16 indices, which hold %d; use "
                       "quads(%d)",
                       (long long)dim[1], WIDEST, WIDEST);
    if (!sp_int_mul(strips_of(dim), (dim[1] + COLUMNS) * TILE, &all))
        return sp_fail(cx, SPARTA_E_LIMIT, "format: groups: %lld x %lld is too large", (long long)dim[0],
                       (long long)dim[1]);
    return SPARTA_OK;
}

/* Columns of a strip ascend; only its last group repeats its last. */
static sparta_status strip_verify(sparta_ctx *cx, const sp_packed *p, int64_t lo, int64_t hi)
{
    const uint16_t *index = p->crd[INDEX].data;
    int64_t last = -1;
    for (int64_t i = lo * COLUMNS; i < hi * COLUMNS; last = index[i++]) {
        bool pads = index[i] == last && i > (hi - 1) * COLUMNS;
        bool after = i > (hi - 1) * COLUMNS + 1 && index[i - 1] == index[i - 2] && index[i] != last;
        if (index[i] < p->dim[1] && (index[i] > last || pads) && !after) continue;
        return sp_fail(cx, SPARTA_E_FORMAT,
                       "packed: groups: index[%lld] is %d after %lld; the columns of a strip ascend, are "
                       "below %lld, and only its last one repeats",
                       (long long)i, index[i], (long long)last, (long long)p->dim[1]);
    }
    return SPARTA_OK;
}

static sparta_status verify(sparta_ctx *cx, const sp_packed *p)
{
    int64_t strips = strips_of(p->dim), lo = 0, groups;
    SP_TRY(sp_array_check(cx, &p->crd[POS], SPARTA_I32, "pos"));
    SP_TRY(sp_array_check(cx, &p->crd[INDEX], SPARTA_U16, "index"));
    groups = p->crd[INDEX].dim[0] / COLUMNS;
    const int32_t *pos = p->crd[POS].data;
    if (p->crd[POS].dim[0] - 1 != strips || pos[0] != 0 || p->crd[INDEX].dim[0] % COLUMNS)
        return sp_fail(cx, SPARTA_E_FORMAT,
                       "packed: groups: pos has %lld entries for %lld strips and index %lld; they need one "
                       "more than strips, from 0 on, and a multiple of %d",
                       (long long)p->crd[POS].dim[0], (long long)strips, (long long)p->crd[INDEX].dim[0],
                       COLUMNS);
    for (int64_t s = 0; s < strips; s++) {
        int64_t hi = pos[s + 1];
        if (hi < lo || hi > groups)
            return sp_fail(cx, SPARTA_E_FORMAT,
                           "packed: groups: pos[%lld] is %lld after %lld; it must not fall, nor pass %lld",
                           (long long)(s + 1), (long long)hi, (long long)lo, (long long)groups);
        SP_TRY(strip_verify(cx, p, lo, hi));
        lo = hi;
    }
    if (lo != groups)
        return sp_fail(cx, SPARTA_E_FORMAT, "packed: groups: pos ends at %lld, index has %lld groups",
                       (long long)lo, (long long)groups);
    return sp_values_check(cx, p, true, groups * TILE);
}

/* One tile; its padding must be 0. */
static sparta_status walk_tile(sparta_ctx *cx, const sp_packed *p, int64_t strip, int64_t group,
                               sp_visit visit, void *arg)
{
    const uint16_t *index = (const uint16_t *)p->crd[INDEX].data + group * COLUMNS;
    for (int slot = 0; slot < TILE; slot++) {
        int64_t position = group * TILE + slot, c = slot % COLUMNS;
        int64_t place[2] = {strip * ROWS + slot / COLUMNS, index[c]};
        if (!sp_element_stored(p->values.dtype, p->values.data, position)) continue;
        if (place[0] >= p->dim[0] || place[1] >= p->dim[1] || (c && index[c] == index[c - 1]))
            return sp_fail(cx, SPARTA_E_FORMAT,
                           "packed: value %lld lies outside the tensor, in the padding, and is not 0",
                           (long long)position);
        SP_TRY(visit(arg, place, p, position));
    }
    return SPARTA_OK;
}

static sparta_status walk(sparta_ctx *cx, const sp_packed *p, sp_visit visit, void *arg)
{
    const int32_t *pos = p->crd[POS].data;
    int64_t strips = strips_of(p->dim), groups = p->crd[INDEX].dim[0] / COLUMNS;
    for (int64_t s = 0; groups && s < strips; s++) {
        if (s % 64 == 0) SP_TRY(sp_check_cancel(cx));
        for (int64_t g = SP_MAX(pos[s], 0); g < SP_MIN(pos[s + 1], groups); g++)
            SP_TRY(walk_tile(cx, p, s, g, visit, arg));
    }
    return SPARTA_OK;
}

const sp_opaque sp_opaque_groups = {.name = "groups",
                                    .arguments = 0,
                                    .usage = "groups: strips of 4 rows in groups of 4 columns",
                                    .array = {"pos", "index"},
                                    .check = check,
                                    .verify = verify,
                                    .walk = walk};
