/* quads: how they are packed; format/opaque_quads.h draws them. */
#include "format/opaque_quads.h"
#include "store/entries.h"
#include <string.h>

typedef struct {
    sp_entry *element; /* key: ((block, strip), column, row) */
    sp_entry *column;  /* key: ((block, strip), pattern, column); source: its first element */
    int64_t columns;
} sorted;

static sparta_status sort(sparta_ctx *cx, const shape *s, const sp_entries *e, sorted *out)
{
    out->element = sp_alloc_array(cx, (size_t)e->n, sizeof *out->element);
    SP_NEED(cx, out->element);
    for (int64_t i = 0; i < e->n; i++) {
        int64_t row = e->index[0][i], k = e->index[1][i], segment = k / s->width * s->strips + row / ROWS;
        out->element[i] = (sp_entry){(segment * s->width + k % s->width) * ROWS + row % ROWS, i};
    }
    SP_TRY(sp_entries_sort(cx, e->n, &out->element));
    out->column = sp_alloc_array(cx, (size_t)e->n, sizeof *out->column);
    SP_NEED(cx, out->column);
    for (int64_t i = 0; i < e->n;) {
        int64_t first = i, column = out->element[i].key / ROWS, pattern = 0;
        for (; i < e->n && out->element[i].key / ROWS == column; i++)
            pattern |= 1 << out->element[i].key % ROWS;
        int64_t key = (column / s->width * PATTERNS + pattern) * s->width + column % s->width;
        out->column[out->columns++] = (sp_entry){key, first};
    }
    return sp_entries_sort(cx, out->columns, &out->column);
}

/* Counts are u16: only a block of 65536 columns that all have one pattern is too much. */
static sparta_status fits(sparta_ctx *cx, const shape *s, const sorted *o)
{
    int64_t run = 0;
    for (int64_t i = 0; i < o->columns; i++) {
        run = i && o->column[i].key / s->width == o->column[i - 1].key / s->width ? run + 1 : 1;
        if (run > UINT16_MAX)
            return sp_fail(cx, SPARTA_E_USAGE,
                           "pack: quads: %lld columns of a block have one pattern, counts hold %d; use "
                           "quads(%d)",
                           (long long)run, UINT16_MAX, WIDEST / 2);
    }
    return SPARTA_OK;
}

static void fill(const shape *s, const sp_entries *e, const sorted *o, sp_packed *out)
{
    uint16_t *counts = out->crd[COUNTS].data, *index = out->crd[INDEX].data;
    size_t size = sparta_dtype_size(e->dtype);
    char *value = out->values.data;
    for (int64_t i = 0; i < o->columns; i++) {
        int64_t bucket = o->column[i].key / s->width;
        int rows = __builtin_popcount((unsigned)(bucket % PATTERNS));
        counts[bucket]++;
        index[i] = (uint16_t)(o->column[i].key % s->width);
        for (int r = 0; r < rows && e->values; r++, value += size) {
            int64_t at = e->source[o->element[o->column[i].source + r].source];
            memcpy(value, (const char *)e->values + at * (int64_t)size, size);
        }
    }
}

static sparta_status store_all(sparta_ctx *cx, const shape *s, const sp_entries *e, const sorted *o,
                               sp_packed *out)
{
    int64_t counts = s->blocks * s->strips * PATTERNS;
    SP_TRY(sp_tensor_alloc(cx, SPARTA_U16, 1, &counts, &out->crd[COUNTS]));
    SP_TRY(sp_tensor_alloc(cx, SPARTA_U16, 1, &o->columns, &out->crd[INDEX]));
    if (e->values) SP_TRY(sp_tensor_alloc(cx, e->dtype, 1, &e->n, &out->values));
    fill(s, e, o, out);
    return SPARTA_OK;
}

static void measure(const shape *s, const sp_entries *e, const sorted *o, sp_store_stats *stats)
{
    int64_t run = 0;
    stats->elements = stats->slots = e->n;
    stats->crd_bytes =
        (size_t)(s->blocks * s->strips * PATTERNS + o->columns) * sizeof(uint16_t); /* check saw it fit */
    stats->value_bytes = e->values ? (size_t)e->n * sparta_dtype_size(e->dtype) : 0;
    stats->segments[0] = s->blocks * s->strips;
    for (int64_t i = 0; i < o->columns; i++) {
        int64_t segment = o->column[i].key / s->width / PATTERNS;
        run = i && segment == o->column[i - 1].key / s->width / PATTERNS ? run + 1 : 1;
        stats->longest[0] = SP_MAX(stats->longest[0], run);
    }
}

sparta_status sp_opaque_pack_quads(sparta_ctx *cx, const sp_format *f, const sp_entries *e, bool store,
                                   sp_packed *out, sp_store_stats *stats)
{
    shape s = shape_of(f, e->dim);
    sorted o = {0};
    sparta_status status = sort(cx, &s, e, &o);
    if (!status) status = fits(cx, &s, &o);
    if (!status) measure(&s, e, &o, stats);
    if (!status && store) status = store_all(cx, &s, e, &o, out);
    sp_free(cx, o.element);
    sp_free(cx, o.column);
    return status;
}
