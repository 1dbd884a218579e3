/* What level kinds share when they are read: segments between edges (pos), stored coordinates, and segments that all have the same
 * width (packed, structured, singleton). */
#include "format/level.h"

sparta_status sp_level_product(sparta_ctx *cx, int number, int64_t parents, int64_t each, int64_t *size)
{
    if (!sp_int_mul(parents, each, size))
        return sp_fail(cx, SPARTA_E_LIMIT,
                       "format: level %d would have %lld times %lld positions, more than 64 bits count",
                       number, (long long)parents, (long long)each);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ edges */

sparta_status sp_edges_verify(sparta_ctx *cx, const sp_level_view *v, int64_t n)
{
    int64_t lo = 0;
    sparta_dtype pw = v->level->pos;
    if (v->pos->dim[0] - 1 != v->parents) /* dim >= 0, so this cannot overflow */
        return sp_fail(
            cx, SPARTA_E_FORMAT,
            "packed: level %d: pos has %lld entries for %lld segments; it needs one more than segments",
            v->number, (long long)v->pos->dim[0], (long long)v->parents);
    if (sp_index_get(pw, v->pos->data, 0) != 0)
        return sp_fail(cx, SPARTA_E_FORMAT, "packed: level %d: pos[0] is %lld, it must be 0", v->number,
                       (long long)sp_index_get(pw, v->pos->data, 0));
    for (int64_t p = 0; p < v->parents; p++) {
        int64_t hi = sp_index_get(pw, v->pos->data, p + 1);
        if (hi < lo || hi > n)
            return sp_fail(
                cx, SPARTA_E_FORMAT,
                "packed: level %d: pos[%lld] is %lld after %lld; positions must not fall, nor pass %lld",
                v->number, (long long)(p + 1), (long long)hi, (long long)lo, (long long)n);
        if (sp_level_has_crd(v->level)) SP_TRY(sp_coordinates_verify(cx, v, p, lo, hi));
        lo = hi;
    }
    if (lo != n)
        return sp_fail(cx, SPARTA_E_FORMAT, "packed: level %d: pos ends at %lld, crd has %lld entries",
                       v->number, (long long)lo, (long long)n);
    return SPARTA_OK;
}

void sp_edges_segment(const sp_level_view *v, int64_t parent, int64_t *lo, int64_t *hi)
{
    int64_t a = sp_index_get(v->level->pos, v->pos->data, parent);
    int64_t b = sp_index_get(v->level->pos, v->pos->data, parent + 1);
    bool inside = a >= 0 && a <= b && b <= v->size;
    *lo = inside ? a : 0;
    *hi = inside ? b : 0;
}

/* ------------------------------------------------------------------ coordinates */

/* As stored: from the origin on. */
static int64_t stored(const sp_level_view *v, int64_t position)
{
    return sp_index_get(v->level->crd, v->crd->data, position * v->crd_step + v->crd_first);
}

static sparta_status out_of_range(sparta_ctx *cx, const sp_level_view *v, int64_t q, int64_t c)
{
    if (v->origin)
        return sp_fail(cx, SPARTA_E_FORMAT, "packed: level %d: crd[%lld] is %lld, offsets are %lld to %lld",
                       v->number, (long long)q, (long long)c, (long long)v->origin,
                       (long long)(v->origin + v->extent - 1));
    return sp_fail(cx, SPARTA_E_FORMAT, "packed: level %d: crd[%lld] is %lld, coordinates are below %lld",
                   v->number, (long long)q, (long long)c, (long long)v->extent);
}

/* -1: outside. Written so that no stored value overflows: origin <= 0 < extent. */
static int64_t in_range(const sp_level_view *v, int64_t c)
{
    return c >= v->origin && c < v->extent + v->origin ? c - v->origin : -1;
}

sparta_status sp_coordinates_verify(sparta_ctx *cx, const sp_level_view *v, int64_t parent, int64_t lo,
                                    int64_t hi)
{
    bool ordered = !(v->level->properties & SP_PROP_NONORDERED);
    bool unique = !(v->level->properties & SP_PROP_NONUNIQUE);
    for (int64_t q = lo, last = -1; q < hi; q++) {
        int64_t c = in_range(v, stored(v, q));
        if (c < 0) return out_of_range(cx, v, q, stored(v, q));
        if (ordered && (c < last || (unique && c == last)))
            return sp_fail(cx, SPARTA_E_FORMAT,
                           "packed: level %d: crd[%lld] is %lld after %lld; segment %lld must ascend",
                           v->number, (long long)q, (long long)(c + v->origin), (long long)(last + v->origin),
                           (long long)parent);
        last = c;
    }
    return SPARTA_OK;
}

int64_t sp_coordinates_get(sp_level_view *v, int64_t parent, int64_t position)
{
    (void)parent;
    return in_range(v, stored(v, position));
}

/* ------------------------------------------------------------------ segments of one width */

/* Bytes of a segment of u2 or u4. */
int64_t sp_fixed_bytes(const sp_level *l, int64_t width)
{
    return width / (8 / l->crd_bits) + (width % (8 / l->crd_bits) != 0);
}

static int64_t fixed_get(const sp_level_view *v, int64_t position)
{
    const sp_level *l = v->level;
    if (!l->crd_bits) return stored(v, position);
    int64_t each = 8 / l->crd_bits, parent = position / v->width, slot = position % v->width;
    uint8_t byte = ((const uint8_t *)v->crd->data)[parent * sp_fixed_bytes(l, v->width) + slot / each];
    return byte >> slot % each * l->crd_bits & ((1 << l->crd_bits) - 1);
}

/* Ascending, then padding. */
static sparta_status fixed_segment_verify(sparta_ctx *cx, const sp_level_view *v, int64_t parent)
{
    bool zero = v->level->properties & SP_PROP_PAD_ZERO, padding = false;
    int64_t last = -1;
    for (int64_t q = parent * v->width; q < (parent + 1) * v->width; q++) {
        int64_t c = fixed_get(v, q);
        if (c < 0 || c >= v->extent) return out_of_range(cx, v, q, c);
        bool pads = c <= last;
        if ((padding && !pads) || (pads && c != (zero ? 0 : last)))
            return sp_fail(cx, SPARTA_E_FORMAT,
                           "packed: level %d: crd[%lld] is %lld after %lld; segment %lld must ascend, then "
                           "repeat %s",
                           v->number, (long long)q, (long long)c, (long long)last, (long long)parent,
                           zero ? "0" : "its last");
        padding = pads;
        last = c;
    }
    return SPARTA_OK;
}

sparta_status sp_fixed_verify(sparta_ctx *cx, sp_level_view *v, int64_t width)
{
    int64_t n = v->crd_n, need;
    if (!width && v->parents) width = n / v->parents;
    if (!v->extent || !v->parents) width = 0;
    SP_TRY(sp_level_product(cx, v->number, v->parents, width, &v->size));
    need = v->size;
    if (v->level->crd_bits)
        SP_TRY(sp_level_product(cx, v->number, v->parents, sp_fixed_bytes(v->level, width), &need));
    if (n != need)
        return sp_fail(cx, SPARTA_E_FORMAT,
                       "packed: level %d: crd has %lld entries, %lld segments of %lld need %lld", v->number,
                       (long long)n, (long long)v->parents, (long long)width, (long long)need);
    v->width = width;
    for (int64_t p = 0; width && p < v->parents; p++) SP_TRY(fixed_segment_verify(cx, v, p));
    return SPARTA_OK;
}

void sp_fixed_segment(const sp_level_view *v, int64_t parent, int64_t *lo, int64_t *hi)
{
    *lo = parent * v->width;
    *hi = *lo + v->width;
}

int64_t sp_fixed_coordinate(sp_level_view *v, int64_t parent, int64_t position)
{
    (void)parent;
    int64_t c = fixed_get(v, position);
    return c < v->extent ? c : -1; /* a negative one is its own */
}

bool sp_fixed_padding(sp_level_view *v, int64_t parent, int64_t position)
{
    return position > parent * v->width && fixed_get(v, position) <= fixed_get(v, position - 1);
}

bool sp_fixed_doubtful(sp_level_view *v, int64_t parent, int64_t position)
{
    if (position != parent * v->width || fixed_get(v, position) != 0) return false;
    return v->width == 1 || fixed_get(v, position + 1) == 0;
}
