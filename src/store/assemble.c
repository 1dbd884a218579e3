/* Assemble: sorted entries become the arrays of any list of levels. It knows no level kind by name, and is the oracle
 * that every fast path is tested against.
 *
 * An entry's key becomes its place among all (padded) elements in level order:
 *
 *      key = (coordinate of level 0 * extent of level 1 + coordinate of level 1) * extent of level 2 + ...
 *
 * Entries are sorted by it; then each level in turn reads its coordinate from the key and gives the entry its
 * position.
 */
#include "store/entries.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    const sp_format *f;
    sp_entry_list *e;
    int64_t weight[SP_LEVELS]; /* what one step of each level is worth in the key */
    int64_t *coord, *at;       /* (n) */
    bool *opens;               /* (n) */
    bool store;
} work;

/* ------------------------------------------------------------------ keys */

static int64_t level_coordinate(const sp_level *l, const int64_t *dim, const int64_t *index)
{
    int64_t i = index[l->dim];
    switch (l->map) {
    case SP_MAP_DIV: return i / l->c;
    case SP_MAP_MOD: return i % l->c;
    case SP_MAP_NEST: return i % l->c / l->inner;
    case SP_MAP_SUB: return i - index[l->other] - sp_level_origin(l, dim);
    case SP_MAP_ADD: return i + index[l->other];
    default: return i;
    }
}

/* The product of the extents was checked; where one is 0 the others may be anything, and there are no entries. */
static void weigh(work *w)
{
    uint64_t all = 1;
    for (int l = w->f->n - 1; l >= 0; l--) {
        w->weight[l] = (int64_t)all;
        all *= (uint64_t)sp_level_extent(&w->f->level[l], w->e->dim);
    }
}

/* Keys in the order of the levels; zeros go where the format does without them. */
static void key_by_levels(work *w)
{
    sp_entry_list *e = w->e;
    bool drop = e->values && sp_levels_zeroless(w->f);
    int64_t n = 0, index[SPARTA_RANK];
    for (int64_t i = 0; i < e->n; i++) {
        if (drop && !sp_element_stored(e->dtype, e->values, e->entry[i].source)) continue;
        int64_t key = 0;
        sp_entries_index(e, e->entry[i].key, index);
        for (int l = 0; l < w->f->n; l++)
            key += w->weight[l] * level_coordinate(&w->f->level[l], e->dim, index);
        e->entry[n++] = (sp_entry){key, e->entry[i].source};
    }
    e->n = n;
}

/* ------------------------------------------------------------------ levels */

/* Which entries begin a position of level `l`? Those with a new coordinate or parent. A nonunique level begins
 * another where the singletons below it change, or where the packed level below is full:
 *
 *      (i:compressed(nonunique), j:packed[2])      row 3 has columns 0 4 7:  crd of i  3 3
 *                                                                            crd of j  0 4  7 7
 */
static void find_openings(const work *w, int l)
{
    const sp_format *f = w->f;
    const sp_entry *e = w->e->entry;
    int unit = l, piece;
    bool cuts = f->level[l].properties & SP_PROP_NONUNIQUE;
    while (cuts && unit + 1 < f->n && f->level[unit + 1].kind == SP_LEVEL_SINGLETON) unit++;
    piece = cuts && unit + 1 < f->n && sp_level_table[f->level[unit + 1].kind].arguments ? unit + 1 : unit;
    int64_t room = piece > unit && f->level[piece].w ? f->level[piece].w : INT64_MAX, pieces = 0;
    for (int64_t i = 0; i < w->e->n; i++) {
        int64_t key = e[i].key, last = i ? e[i - 1].key : 0;
        bool opens = !i || w->at[i] != w->at[i - 1] || key / w->weight[unit] != last / w->weight[unit];
        if (!opens && piece > unit && key / w->weight[piece] != last / w->weight[piece])
            opens = pieces++ == room;
        if (opens) pieces = 1;
        w->opens[i] = opens;
    }
}

/* "row 3", "i/2 = 1, j/2 = 7", "the tensor": the place of a segment of level `number`. */
static void name_place(const work *w, int number, int64_t key, char *out, size_t size)
{
    const sp_format *f = w->f;
    const sp_level *first = &f->level[0];
    char map[48];
    snprintf(out, size, "the tensor");
    for (int l = 0, used = 0; l < number && used < (int)size; l++) {
        const sp_level *level = &f->level[l];
        int64_t c = key / w->weight[l] % sp_level_extent(level, w->e->dim);
        sp_level_print_map(f, level, map);
        used += snprintf(out + used, size - (size_t)used, "%s%s = %lld", l ? ", " : "", map,
                         (long long)(c + sp_level_origin(level, w->e->dim)));
    }
    if (f->rank == 2 && number == 1 && first->map == SP_MAP_ALL)
        snprintf(out, size, "%s %lld", first->dim ? "column" : "row", (long long)(key / w->weight[0]));
}

/* A segment has more entries than its level holds: say where, in the tensor's words, and what to do. */
static sparta_status crowded(sparta_ctx *cx, const work *w, const sp_assembly *a)
{
    char where[SP_LEVELS * 32];
    name_place(w, a->number, w->e->entry[a->crowded].key, where, sizeof where);
    long long n = a->longest, room = a->level->w, m = a->level->m;
    if (a->level->kind == SP_LEVEL_STRUCTURED)
        return sp_fail(
            cx, SPARTA_E_USAGE,
            "pack: %s has %lld nonzeros in %lld neighbours, structured[%lld,%lld] holds %lld; run a "
            "%lld:%lld sparsifier first",
            where, n, m, room, m, room, room, m);
    if (a->level->kind == SP_LEVEL_SINGLETON)
        return sp_fail(
            cx, SPARTA_E_USAGE,
            "pack: %s has %lld entries, a singleton holds 1; make the level above nonunique, or use "
            "packed[auto]",
            where, n);
    bool rows = a->number == 1 && w->f->level[0].map == SP_MAP_ALL && w->f->level[0].dim == 0;
    char sum[80] = "";
    if (rows) snprintf(sum, sizeof sum, ", or a sum: sum{rownnz<=%lld -> ...; rest -> coo}", room);
    return sp_fail(cx, SPARTA_E_USAGE,
                   "pack: %s has %lld entries, packed[%lld] holds %lld; use packed[%lld] or packed[auto]%s",
                   where, n, room, room, n, sum);
}

static sparta_status count_level(sparta_ctx *cx, const sp_assembly *a, sp_store_stats *stats)
{
    stats->longest[a->number] = a->longest;
    stats->segments[a->number] = a->parents;
    if (sp_size_add(stats->pos_bytes, a->pos_bytes, &stats->pos_bytes) &&
        sp_size_add(stats->crd_bytes, a->crd_bytes, &stats->crd_bytes))
        return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_LIMIT, "format: the arrays are too large");
}

static sp_assembler *const assembler[SP_LEVEL_KINDS] = {
#define SP_LEVEL(id, name, pos, crd, arguments, properties, begin, end, coordinate) sp_assemble_##id,
#include "format/levels.def"
#undef SP_LEVEL
};

static sparta_status each_level(sparta_ctx *cx, work *w, sp_packed *out, sp_store_stats *stats)
{
    int64_t parents = 1;
    for (int l = 0; l < w->f->n; l++) {
        const sp_level *level = &w->f->level[l];
        sp_assembly a = {.level = level,
                         .number = l,
                         .extent = sp_level_extent(level, w->e->dim),
                         .origin = sp_level_origin(level, w->e->dim),
                         .n = w->e->n,
                         .coord = w->coord,
                         .opens = w->opens,
                         .at = w->at,
                         .parents = parents,
                         .store = w->store,
                         .crowded = -1};
        for (int64_t i = 0; i < w->e->n; i++) w->coord[i] = w->e->entry[i].key / w->weight[l] % a.extent;
        find_openings(w, l);
        sparta_status status = assembler[level->kind](cx, &a);
        out->pos[l] = a.pos;
        out->crd[l] = a.crd;
        if (status && a.crowded >= 0) return crowded(cx, w, &a);
        SP_TRY(status);
        SP_TRY(sp_check_cancel(cx));
        SP_TRY(count_level(cx, &a, stats));
        parents = a.size;
    }
    stats->slots = parents;
    return SPARTA_OK;
}

/* aos: the coordinate arrays of neighbours become one, [positions][levels]. */
static sparta_status interleave(sparta_ctx *cx, const sp_format *f, sp_packed *out)
{
    for (int l = 0; l < f->n; l++) {
        int k = sp_level_shares(f, l);
        if (k == 1 || f->level[l].properties & SP_PROP_AOS) continue;
        sparta_tensor all;
        int64_t dim[2] = {out->crd[l].dim[0], k};
        sparta_dtype width = f->level[l].crd;
        SP_TRY(sp_tensor_alloc(cx, width, 2, dim, &all));
        for (int i = 0; i < k; i++)
            for (int64_t q = 0; q < dim[0]; q++)
                sp_index_set(width, all.data, q * k + i, sp_index_get(width, out->crd[l + i].data, q));
        for (int i = 0; i < k; i++) {
            sp_free(cx, out->crd[l + i].data);
            out->crd[l + i] = i ? (sparta_tensor){0} : all;
        }
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ values */

static void copy_values(const work *w, sparta_tensor *values)
{
    const sp_entry_list *e = w->e;
    size_t size = sparta_dtype_size(e->dtype);
    for (int64_t i = 0; i < e->n; i++) {
        char *slot = (char *)values->data + (size_t)w->at[i] * size;
        if (e->values)
            memcpy(slot, (const char *)e->values + e->entry[i].source * (int64_t)size, size);
        else
            *slot = 1;
    }
}

static sparta_status store_values(sparta_ctx *cx, const work *w, sp_packed *out, sp_store_stats *stats)
{
    if (!w->e->values && !sp_levels_pattern_has_values(w->f)) return SPARTA_OK;
    SP_TRY(sp_tensor_bytes(cx, w->e->dtype, 1, &stats->slots, &stats->value_bytes));
    if (!w->store) return SPARTA_OK;
    SP_TRY(sp_tensor_alloc(cx, w->e->dtype, 1, &stats->slots, &out->values));
    copy_values(w, &out->values);
    return SPARTA_OK;
}

static sparta_status assemble_with(sparta_ctx *cx, work *w, sp_packed *out, sp_store_stats *stats)
{
    weigh(w);
    key_by_levels(w);
    SP_TRY(sp_check_cancel(cx));
    SP_TRY(sp_entries_sort(cx, w->e->n, &w->e->entry));
    w->coord = sp_alloc_array(cx, (size_t)w->e->n, sizeof *w->coord);
    SP_NEED(cx, w->coord);
    w->at = sp_alloc_array(cx, (size_t)w->e->n, sizeof *w->at);
    SP_NEED(cx, w->at);
    w->opens = sp_alloc_array(cx, (size_t)w->e->n, sizeof *w->opens);
    SP_NEED(cx, w->opens);
    stats->elements = w->e->n;
    SP_TRY(each_level(cx, w, out, stats));
    if (w->store) SP_TRY(interleave(cx, w->f, out));
    SP_TRY(sp_check_cancel(cx));
    return store_values(cx, w, out, stats);
}

sparta_status sp_levels_assemble(sparta_ctx *cx, const sp_format *f, sp_entry_list *e, bool store,
                                 sp_packed *out, sp_store_stats *stats)
{
    work w = {.f = f, .e = e, .store = store};
    sparta_status status = assemble_with(cx, &w, out, stats);
    sp_free(cx, w.coord);
    sp_free(cx, w.at);
    sp_free(cx, w.opens);
    return status;
}
