/* bitmap: one bit a coordinate, and positions only for those that are there.
 *
 *      row 0   . a . b        bits  0x0a      first coordinate in the low bit, each segment whole bytes
 *      row 1   . . . .              0x00
 *      row 2   c . . .              0x01
 *      pos     0 2 2 3        a position is pos[parent] + the bits set before its own
 *
 * The bits are the level's crd array, of type u8.
 */
#include "format/level.h"

static int64_t bytes_of(int64_t extent)
{
    return extent / 8 + (extent % 8 != 0);
}

static void fill(sp_assembly *a)
{
    int64_t position = -1, parent = 0, each = bytes_of(a->extent);
    for (int64_t e = 0; e <= a->n; e++) {
        int64_t until = e < a->n ? a->at[e] : a->parents;
        for (; a->store && parent < until; parent++)
            sp_index_set(a->level->pos, a->pos.data, parent + 1, position + 1);
        if (e == a->n) break;
        position += a->opens[e];
        if (a->store)
            ((uint8_t *)a->crd.data)[until * each + a->coord[e] / 8] |= (uint8_t)(1 << a->coord[e] % 8);
        a->at[e] = position;
    }
}

static sparta_status assemble(sparta_ctx *cx, sp_assembly *a)
{
    int64_t edges, bytes, run = 0;
    for (int64_t e = 0; e < a->n; e++) {
        run = (e && a->at[e] == a->at[e - 1] ? run : 0) + a->opens[e];
        a->longest = SP_MAX(a->longest, run);
        a->size += a->opens[e];
    }
    if (!sp_int_add(a->parents, 1, &edges))
        return sp_fail(cx, SPARTA_E_LIMIT, "format: level %d has too many parents", a->number);
    SP_TRY(sp_assembly_product(cx, a->number, a->parents, bytes_of(a->extent), &bytes));
    SP_TRY(sp_level_pos_fits(cx, a->level, a->number, a->size));
    SP_TRY(sp_assembly_arrays(cx, a, edges, bytes));
    fill(a);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ read */

static const uint8_t *bits_of(const sp_level_view *v, int64_t parent)
{
    return (const uint8_t *)v->crd->data + parent * bytes_of(v->extent);
}

static sparta_status verify_segment(sparta_ctx *cx, const sp_level_view *v, int64_t parent)
{
    const uint8_t *bits = bits_of(v, parent);
    int64_t lo, hi, n = 0, each = bytes_of(v->extent);
    sp_edges_segment(v, parent, &lo, &hi);
    for (int64_t i = 0; i < each; i++) n += __builtin_popcount(bits[i]);
    if (n != hi - lo)
        return sp_fail(cx, SPARTA_E_FORMAT, "packed: level %d: segment %lld has %lld bits set, pos says %lld",
                       v->number, (long long)parent, (long long)n, (long long)(hi - lo));
    if (v->extent % 8 && bits[each - 1] >> v->extent % 8)
        return sp_fail(cx, SPARTA_E_FORMAT,
                       "packed: level %d: segment %lld has bits set past its %lld coordinates", v->number,
                       (long long)parent, (long long)v->extent);
    return SPARTA_OK;
}

static sparta_status verify(sparta_ctx *cx, sp_level_view *v)
{
    int64_t bytes, edges = v->pos->dim[0];
    SP_TRY(sp_assembly_product(cx, v->number, v->parents, bytes_of(v->extent), &bytes));
    if (v->crd_n != bytes)
        return sp_fail(cx, SPARTA_E_FORMAT, "packed: level %d: bits have %lld bytes, they need %lld",
                       v->number, (long long)v->crd_n, (long long)bytes);
    if (edges > 0) v->size = sp_index_get(v->level->pos, v->pos->data, edges - 1);
    if (v->size < 0) v->size = 0; /* refused below: it falls */
    SP_TRY(sp_edges_verify(cx, v, v->size));
    for (int64_t p = 0; p < v->parents && bytes; p++) SP_TRY(verify_segment(cx, v, p));
    if (!bytes && v->size)
        return sp_fail(cx, SPARTA_E_FORMAT, "packed: level %d: positions without bits", v->number);
    return SPARTA_OK;
}

/* The walker asks for the positions of a segment in order: go on from the last. */
static int64_t coordinate(sp_level_view *v, int64_t parent, int64_t position)
{
    const uint8_t *bits = bits_of(v, parent);
    int64_t lo, hi;
    bool next = v->seen_parent == parent && v->seen_position + 1 == position;
    sp_edges_segment(v, parent, &lo, &hi);
    int64_t c = next ? v->seen_coordinate + 1 : 0, skip = next ? 0 : position - lo;
    while (c < v->extent) {
        if (c % 8 == 0 && !bits[c / 8]) {
            c += 8;
        } else if (bits[c / 8] >> c % 8 & 1 && skip-- == 0) {
            v->seen_parent = parent, v->seen_position = position, v->seen_coordinate = c;
            return c;
        } else {
            c++;
        }
    }
    return -1;
}

const sp_level_ops sp_level_ops_BITMAP = {assemble, verify, sp_edges_segment, coordinate, NULL, NULL};
