/* groups: how they are packed; format/opaque_groups.h draws them. */
#include "format/opaque_groups.h"
#include "store/entries.h"
#include <string.h>

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
                                 sp_packed *out, sp_store_stats *stats)
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

sparta_status sp_opaque_pack_groups(sparta_ctx *cx, const sp_format *f, const sp_entries *e, bool store,
                                    sp_packed *out, sp_store_stats *stats)
{
    sp_entry *o = NULL;
    (void)f;
    sparta_status status = sort(cx, e, &o);
    if (!status) status = pack_sorted(cx, e, o, store, out, stats);
    sp_free(cx, o);
    return status;
}
