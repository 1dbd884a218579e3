/* groups: the columns of each strip of 4 rows, four at a time, as 8-bit dot products want them (a dword of 4 inputs for each of 4
 * outputs):
 *
 *              k 0 1 2 3 4 5          pos     0           2        groups of each strip
 *      row 0     a . . d . h          index   0 2 3 4   5 5 5 5    columns that have anything, u16; the last repeats
 *      row 1     b . c . . .          values  a 0 d 0   h 0 0 0    a tile of 4 rows x 4 columns for each group
 *      row 2     . . . e . .                  b c 0 0   0 0 0 0
 *      row 3     . . . f g .                  0 0 e 0   0 0 0 0
 *                                             0 0 f g   0 0 0 0
 *
 * A zero is an absent element.
 */
#include "format/entries.h"
#include <string.h>

enum { POS, INDEX, ROWS = 4, COLUMNS = 4, TILE = ROWS * COLUMNS, WIDEST = 1 << 16 };

static int64_t strips_of(const int64_t *dim)
{
    return dim[0] / ROWS + (dim[0] % ROWS != 0);
}

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

/* ------------------------------------------------------------------ pack */

/* Elements by (strip, column, row): each new (strip, column) is a slot of a group, each new strip begins a group. */
static sparta_status sort(sparta_ctx *cx, const sp_entries *e, sp_entry **out)
{
    *out = sp_alloc_array(cx, (size_t)e->n, sizeof **out);
    SP_NEED(cx, *out);
    for (int64_t i = 0; i < e->n; i++) {
        int64_t row = e->index[0][i];
        (*out)[i] = (sp_entry){(row / ROWS * e->dim[1] + e->index[1][i]) * ROWS + row % ROWS, i};
    }
    return sp_entries_sort(cx, e->n, out);
}

/* The next column after the one of entry i; whether the strip goes on there. */
static int64_t column_end(const sp_entry *o, int64_t n, int64_t i)
{
    int64_t column = o[i].key / ROWS;
    while (i < n && o[i].key / ROWS == column) i++;
    return i;
}

static int64_t count_groups(const sp_entries *e, const sp_entry *o, int64_t *longest)
{
    int64_t groups = 0, strip = -1, slot = 0;
    for (int64_t i = 0; i < e->n; i = column_end(o, e->n, i)) {
        int64_t s = o[i].key / ROWS / e->dim[1];
        if (s != strip) strip = s, slot = 0;
        groups += slot++ % COLUMNS == 0;
        *longest = SP_MAX(*longest, (slot + COLUMNS - 1) / COLUMNS);
    }
    return groups;
}

static void put_column(const sp_entries *e, const sp_entry *o, int64_t i, int64_t end, char *tile)
{
    size_t size = sparta_dtype_size(e->dtype);
    for (; i < end; i++) {
        char *slot = tile + (size_t)(o[i].key % ROWS * COLUMNS) * size;
        if (e->values)
            memcpy(slot, (const char *)e->values + e->source[o[i].source] * (int64_t)size, size);
        else
            *slot = 1;
    }
}

static void fill(const sp_entries *e, const sp_entry *o, sp_packed *out)
{
    int32_t *pos = out->crd[POS].data;
    uint16_t *index = out->crd[INDEX].data;
    size_t size = sparta_dtype_size(e->dtype);
    int64_t group = -1, strip = 0, slot = 0;
    for (int64_t i = 0, end; i < e->n; i = end) {
        int64_t s = o[i].key / ROWS / e->dim[1], k = o[i].key / ROWS % e->dim[1];
        end = column_end(o, e->n, i);
        for (; strip < s; strip++, slot = 0) pos[strip + 1] = (int32_t)(group + 1);
        group += slot % COLUMNS == 0;
        for (int64_t c = slot % COLUMNS; c < COLUMNS; c++) index[group * COLUMNS + c] = (uint16_t)k;
        put_column(e, o, i, end, (char *)out->values.data + (size_t)(group * TILE + slot % COLUMNS) * size);
        slot++;
    }
    for (; strip < strips_of(e->dim); strip++) pos[strip + 1] = (int32_t)(group + 1);
}

static sparta_status store_all(sparta_ctx *cx, const sp_entries *e, const sp_entry *o, int64_t groups,
                               sp_packed *out)
{
    int64_t edges = strips_of(e->dim) + 1, index = groups * COLUMNS, slots = groups * TILE;
    SP_TRY(sp_tensor_alloc(cx, SPARTA_I32, 1, &edges, &out->crd[POS]));
    SP_TRY(sp_tensor_alloc(cx, SPARTA_U16, 1, &index, &out->crd[INDEX]));
    SP_TRY(sp_tensor_alloc(cx, e->dtype, 1, &slots, &out->values));
    fill(e, o, out);
    return SPARTA_OK;
}

static sparta_status pack_sorted(sparta_ctx *cx, const sp_entries *e, const sp_entry *o, bool store,
                                 sp_packed *out, sp_format_stats *stats)
{
    int64_t groups = count_groups(e, o, &stats->longest[0]);
    if (groups > INT32_MAX)
        return sp_fail(cx, SPARTA_E_LIMIT, "pack: %lld groups are more than pos=i32 holds",
                       (long long)groups);
    stats->elements = e->n;
    stats->slots = groups * TILE;
    stats->segments[0] = strips_of(e->dim);
    stats->crd_bytes = (size_t)(stats->segments[0] + 1) * sizeof(int32_t) +
                       (size_t)(groups * COLUMNS) * sizeof(uint16_t); /* check saw it fit */
    SP_TRY(sp_tensor_bytes(cx, e->dtype, 1, &stats->slots, &stats->value_bytes));
    return store ? store_all(cx, e, o, groups, out) : SPARTA_OK;
}

static sparta_status pack(sparta_ctx *cx, const sp_format *f, const sp_entries *e, bool store, sp_packed *out,
                          sp_format_stats *stats)
{
    sp_entry *o = NULL;
    (void)f;
    sparta_status status = sort(cx, e, &o);
    if (!status) status = pack_sorted(cx, e, o, store, out, stats);
    sp_free(cx, o);
    return status;
}

/* ------------------------------------------------------------------ read */

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
                                    .pack = pack,
                                    .verify = verify,
                                    .walk = walk};
