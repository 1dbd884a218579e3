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

static const uint8_t *bits_of(const sp_level_view *v, int64_t parent)
{
    return (const uint8_t *)v->crd->data + parent * sp_bitmap_bytes(v->extent);
}

static sparta_status verify_segment(sparta_ctx *cx, const sp_level_view *v, int64_t parent)
{
    const uint8_t *bits = bits_of(v, parent);
    int64_t lo, hi, n = 0, each = sp_bitmap_bytes(v->extent);
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
    SP_TRY(sp_level_product(cx, v->number, v->parents, sp_bitmap_bytes(v->extent), &bytes));
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

const sp_level_ops sp_level_ops_BITMAP = {verify, sp_edges_segment, coordinate, NULL, NULL};
