/* How each kind of level assembles its positions from sorted entries; format/level_<kind>.c draws what they write, and reads it. */
#include "store/store_inside.h"

/* ------------------------------------------------------------------ what they share */

/* Arrays of this many elements: count their bytes, and allocate when storing. -1: the level has none. */
static sparta_status make_arrays(sparta_ctx *cx, sp_assembly *a, int64_t n_pos, int64_t n_crd)
{
    sparta_dtype crd = sp_level_has_crd(a->level) ? a->level->crd : SPARTA_U8;
    if (n_pos >= 0) SP_TRY(sp_tensor_bytes(cx, a->level->pos, 1, &n_pos, &a->pos_bytes));
    if (n_crd >= 0) SP_TRY(sp_tensor_bytes(cx, crd, 1, &n_crd, &a->crd_bytes));
    if (!a->store) return SPARTA_OK;
    if (n_pos >= 0) SP_TRY(sp_tensor_alloc(cx, a->level->pos, 1, &n_pos, &a->pos));
    return n_crd >= 0 ? sp_tensor_alloc(cx, crd, 1, &n_crd, &a->crd) : SPARTA_OK;
}

/* Where each coordinate has a position of its own: how many there are, and the most below one parent. */
static void count_positions(sp_assembly *a)
{
    int64_t run = 0;
    for (int64_t e = 0; e < a->n; e++) {
        run = (e && a->at[e] == a->at[e - 1] ? run : 0) + a->opens[e];
        a->longest = SP_MAX(a->longest, run);
        a->size += a->opens[e];
    }
}

static sparta_status count_edges(sparta_ctx *cx, const sp_assembly *a, int64_t *edges)
{
    if (sp_int_add(a->parents, 1, edges)) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_LIMIT, "format: level %d has too many parents", a->number);
}

/* As many positions below every parent: packed, structured, singleton. */
static void put(sp_assembly *a, int64_t width, int64_t parent, int64_t slot, int64_t coordinate)
{
    const sp_level *l = a->level;
    if (!l->crd_bits) {
        sp_index_set(l->crd, a->crd.data, parent * width + slot, coordinate);
        return;
    }
    int64_t each = 8 / l->crd_bits;
    ((uint8_t *)a->crd.data)[parent * sp_fixed_bytes(l, width) + slot / each] |=
        (uint8_t)(coordinate << slot % each * l->crd_bits);
}

static void fill_fixed(sp_assembly *a, int64_t width)
{
    bool last = !(a->level->properties & SP_PROP_PAD_ZERO); /* pad=zero: the arrays are 0 already */
    int64_t slot = -1;
    for (int64_t e = 0; e < a->n; e++) {
        int64_t parent = a->at[e];
        slot += a->opens[e];
        if (a->store && a->opens[e]) put(a, width, parent, slot, a->coord[e]);
        bool ends = e + 1 == a->n || a->at[e + 1] != parent;
        for (int64_t s = slot + 1; ends && last && a->store && s < width; s++)
            put(a, width, parent, s, a->coord[e]);
        a->at[e] = parent * width + slot;
        if (ends) slot = -1;
    }
}

/* Width 0: the longest segment's. */
static sparta_status assemble_fixed(sparta_ctx *cx, sp_assembly *a, int64_t width)
{
    int64_t run = 0, crd;
    for (int64_t e = 0; e < a->n; e++) {
        run = (e && a->at[e] == a->at[e - 1] ? run : 0) + a->opens[e];
        if (run <= a->longest) continue;
        a->longest = run;
        if (width && run > width) a->crowded = e;
    }
    if (a->crowded >= 0)
        return sp_fail(cx, SPARTA_E_USAGE, "pack: level %d: a segment has %lld entries, it holds %lld",
                       a->number, (long long)a->longest, (long long)width);
    if (!width) width = a->longest;
    if (!a->extent) width = 0; /* not even a coordinate to pad with */
    SP_TRY(sp_level_product(cx, a->number, a->parents, width, &a->size));
    crd = a->size;
    if (a->level->crd_bits)
        SP_TRY(sp_level_product(cx, a->number, a->parents, sp_fixed_bytes(a->level, width), &crd));
    SP_TRY(make_arrays(cx, a, -1, crd));
    fill_fixed(a, width);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ dense */

sparta_status sp_assemble_DENSE(sparta_ctx *cx, sp_assembly *a)
{
    SP_TRY(sp_level_product(cx, a->number, a->parents, a->extent, &a->size));
    a->longest = a->parents ? a->extent : 0;
    for (int64_t e = 0; e < a->n; e++) a->at[e] = a->at[e] * a->extent + a->coord[e];
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ compressed */

/* pos has room for parents+1 and is 0: count each parent's positions one place up, then sum. */
static void fill_compressed(sp_assembly *a)
{
    sparta_dtype pw = a->level->pos, cw = a->level->crd;
    int64_t position = -1;
    for (int64_t e = 0; e < a->n; e++) {
        int64_t parent = a->at[e];
        position += a->opens[e];
        if (a->opens[e] && a->store) {
            sp_index_set(cw, a->crd.data, position, a->coord[e] + a->origin);
            sp_index_set(pw, a->pos.data, parent + 1, sp_index_get(pw, a->pos.data, parent + 1) + 1);
        }
        a->at[e] = position;
    }
    if (!a->store) return;
    int64_t sum = 0;
    for (int64_t p = 0; p <= a->parents; p++)
        sp_index_set(pw, a->pos.data, p, sum += sp_index_get(pw, a->pos.data, p));
}

sparta_status sp_assemble_COMPRESSED(sparta_ctx *cx, sp_assembly *a)
{
    int64_t edges;
    count_positions(a);
    SP_TRY(count_edges(cx, a, &edges));
    SP_TRY(sp_level_pos_fits(cx, a->level, a->number, a->size));
    SP_TRY(make_arrays(cx, a, edges, a->size));
    fill_compressed(a);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ loose */

static void fill_loose(sp_assembly *a)
{
    sparta_dtype pw = a->level->pos, cw = a->level->crd;
    int64_t position = -1, parent = 0;
    for (int64_t e = 0; e <= a->n; e++) {
        int64_t until = e < a->n ? a->at[e] : a->parents;
        for (; a->store && parent < until; parent++) { /* this one is complete, later ones begin here */
            sp_index_set(pw, a->pos.data, 2 * parent + 1, position + 1);
            if (parent + 1 < a->parents) sp_index_set(pw, a->pos.data, 2 * parent + 2, position + 1);
        }
        if (e == a->n) break;
        position += a->opens[e];
        if (a->opens[e] && a->store) sp_index_set(cw, a->crd.data, position, a->coord[e] + a->origin);
        a->at[e] = position;
    }
}

sparta_status sp_assemble_LOOSE(sparta_ctx *cx, sp_assembly *a)
{
    int64_t pairs;
    count_positions(a);
    SP_TRY(sp_level_product(cx, a->number, a->parents, 2, &pairs));
    SP_TRY(sp_level_pos_fits(cx, a->level, a->number, a->size));
    SP_TRY(make_arrays(cx, a, pairs, a->size));
    fill_loose(a);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ ragged */

static void fill_ragged(sp_assembly *a)
{
    int64_t parent = 0, begin = 0, end = 0;
    for (int64_t e = 0; e <= a->n; e++) {
        int64_t until = e < a->n ? a->at[e] : a->parents;
        if (e == 0 || e == a->n || until != parent) {
            if (a->store)
                for (int64_t p = parent; p < until; p++) sp_index_set(a->level->pos, a->pos.data, p + 1, end);
            parent = until, begin = end;
        }
        if (e == a->n) break;
        end = begin + a->coord[e] + 1; /* coordinates of a segment ascend */
        a->at[e] = begin + a->coord[e];
    }
}

sparta_status sp_assemble_RAGGED(sparta_ctx *cx, sp_assembly *a)
{
    int64_t edges;
    for (int64_t e = 0; e < a->n; e++) {
        if (e + 1 < a->n && a->at[e + 1] == a->at[e]) continue;
        a->longest = SP_MAX(a->longest, a->coord[e] + 1);
        if (!sp_int_add(a->size, a->coord[e] + 1, &a->size))
            return sp_fail(cx, SPARTA_E_LIMIT, "format: level %d is too large", a->number);
    }
    SP_TRY(count_edges(cx, a, &edges));
    SP_TRY(sp_level_pos_fits(cx, a->level, a->number, a->size));
    SP_TRY(make_arrays(cx, a, edges, -1));
    fill_ragged(a);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ bitmap */

static void fill_bitmap(sp_assembly *a)
{
    int64_t position = -1, parent = 0, each = sp_bitmap_bytes(a->extent);
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

sparta_status sp_assemble_BITMAP(sparta_ctx *cx, sp_assembly *a)
{
    int64_t edges, bytes;
    count_positions(a);
    SP_TRY(count_edges(cx, a, &edges));
    SP_TRY(sp_level_product(cx, a->number, a->parents, sp_bitmap_bytes(a->extent), &bytes));
    SP_TRY(sp_level_pos_fits(cx, a->level, a->number, a->size));
    SP_TRY(make_arrays(cx, a, edges, bytes));
    fill_bitmap(a);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ packed */

sparta_status sp_assemble_PACKED(sparta_ctx *cx, sp_assembly *a)
{
    return assemble_fixed(cx, a, a->level->w);
}

/* ------------------------------------------------------------------ structured */

sparta_status sp_assemble_STRUCTURED(sparta_ctx *cx, sp_assembly *a)
{
    return assemble_fixed(cx, a, a->level->w);
}

/* ------------------------------------------------------------------ singleton */

sparta_status sp_assemble_SINGLETON(sparta_ctx *cx, sp_assembly *a)
{
    return assemble_fixed(cx, a, 1);
}

/* ------------------------------------------------------------------ range: a dense level, but for how its coordinate is read */

sparta_status sp_assemble_RANGE(sparta_ctx *cx, sp_assembly *a)
{
    return sp_assemble_DENSE(cx, a);
}
