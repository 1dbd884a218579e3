/* Pack: the generic assembler, which is the oracle, and the choice between it and the fast path.
 *
 * Every stored element becomes an entry whose key is its place among all (padded) elements in level order:
 *
 *      key = (coordinate of level 0 * extent of level 1 + coordinate of level 1) * extent of level 2 + ...
 *
 * Entries are sorted by key; then each level in turn reads its coordinate from the key and gives the entry its
 * position.
 */
#include "format/level.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    int64_t key, source; /* source: element offset in the tensor */
} entry;

/* The buffers of one assembly, freed together. */
typedef struct {
    entry *entries, *spare;
    int64_t *coord, *at;
    bool *opens;
    int64_t n;
} work;

static void work_free(sparta_ctx *cx, work *w)
{
    sparta_free(cx, w->entries);
    sparta_free(cx, w->spare);
    sparta_free(cx, w->coord);
    sparta_free(cx, w->at);
    sparta_free(cx, w->opens);
}

/* ------------------------------------------------------------------ entries */

static bool zeroless(const sparta_format *f)
{
    for (int l = 0; l < f->n; l++)
        if (f->level[l].properties & SPARTA_PROP_ZEROLESS) return true;
    return false;
}

static bool stored(const sparta_pack_job *job, bool drop_zeros, const sparta_walk *w)
{
    if (job->mask && !sparta_mask_get(job->mask, w->index[0], w->index[1])) return false;
    return (job->mask && !drop_zeros) || sparta_element_present(job->t->dtype, job->t->data, w->at[0]);
}

static int64_t level_coordinate(const sparta_level *l, const int64_t *dim, const int64_t *index)
{
    int64_t i = index[l->dim];
    switch (l->map) {
    case SPARTA_MAP_DIV: return i / l->c;
    case SPARTA_MAP_MOD: return i % l->c;
    case SPARTA_MAP_NEST: return i % l->c / l->inner;
    case SPARTA_MAP_SUB: return i - index[l->other] - sparta_level_origin(l, dim);
    case SPARTA_MAP_ADD: return i + index[l->other];
    default: return i;
    }
}

/* What one step of each level is worth in the key. The product of the extents was checked; where one is 0 the
 * others may be anything, and there are no entries. */
static void level_weights(const sparta_format *f, const int64_t *dim, int64_t weight[SPARTA_LEVELS])
{
    uint64_t w = 1;
    for (int l = f->n - 1; l >= 0; l--) {
        weight[l] = (int64_t)w;
        w *= (uint64_t)sparta_level_extent(&f->level[l], dim);
    }
}

static int64_t key_of(const sparta_format *f, const int64_t *dim, const int64_t weight[SPARTA_LEVELS],
                      const int64_t *index)
{
    int64_t key = 0;
    for (int l = 0; l < f->n; l++) key += weight[l] * level_coordinate(&f->level[l], dim, index);
    return key;
}

static sparta_status gather(sparta_ctx *cx, const sparta_pack_job *job, const int64_t weight[SPARTA_LEVELS],
                            work *out)
{
    const sparta_tensor *t = job->t;
    bool drop_zeros = zeroless(job->format);
    int64_t n = 0;
    for (sparta_walk w = sparta_walk_begin(t->rank, t->dim, 1, &t); w.more; sparta_walk_next(&w))
        n += stored(job, drop_zeros, &w);
    SPARTA_TRY(sparta_check_cancel(cx));
    out->n = n;
    out->entries = sparta_alloc_array(cx, (size_t)n, sizeof(entry));
    SPARTA_NEED(cx, out->entries);
    entry *e = out->entries;
    for (sparta_walk w = sparta_walk_begin(t->rank, t->dim, 1, &t); w.more; sparta_walk_next(&w))
        if (stored(job, drop_zeros, &w))
            *e++ = (entry){key_of(job->format, t->dim, weight, w.index), w.at[0]};
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ sort */

#define DIGIT   11
#define BUCKETS (1 << DIGIT)

static void sort_by_digit(const entry *from, entry *to, int64_t n, int shift)
{
    int64_t start[BUCKETS] = {0}, sum = 0;
    for (int64_t i = 0; i < n; i++) start[from[i].key >> shift & (BUCKETS - 1)]++;
    for (int b = 0; b < BUCKETS; b++) {
        int64_t count = start[b];
        start[b] = sum;
        sum += count;
    }
    for (int64_t i = 0; i < n; i++) to[start[from[i].key >> shift & (BUCKETS - 1)]++] = from[i];
}

/* Radix sort by as many digits as the largest key has; keys are distinct and not negative. */
static sparta_status sort(sparta_ctx *cx, work *w)
{
    int64_t most = 0;
    bool sorted = true;
    for (int64_t i = 0; i < w->n; i++) {
        most = SPARTA_MAX(most, w->entries[i].key);
        sorted = sorted && (i == 0 || w->entries[i - 1].key < w->entries[i].key);
    }
    if (sorted) return SPARTA_OK;
    w->spare = sparta_alloc_array(cx, (size_t)w->n, sizeof(entry));
    SPARTA_NEED(cx, w->spare);
    for (int shift = 0; shift < 63 && most >> shift; shift += DIGIT) {
        sort_by_digit(w->entries, w->spare, w->n, shift);
        entry *swap = w->entries;
        w->entries = w->spare;
        w->spare = swap;
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ levels */

/* Which entries begin a position of level `l`? Those with a new coordinate or parent. A nonunique level begins
 * another where the singletons below it change, or where the packed level below is full:
 *
 *      (i:compressed(nonunique), j:packed[2])      row 3 has columns 0 4 7:  crd of i  3 3
 *                                                                            crd of j  0 4  7 7
 */
static void find_openings(const sparta_format *f, int l, const int64_t weight[SPARTA_LEVELS], const work *w)
{
    int unit = l, piece;
    bool cuts = f->level[l].properties & SPARTA_PROP_NONUNIQUE;
    while (cuts && unit + 1 < f->n && f->level[unit + 1].kind == SPARTA_LEVEL_SINGLETON) unit++;
    piece =
        cuts && unit + 1 < f->n && sparta_level_table[f->level[unit + 1].kind].arguments ? unit + 1 : unit;
    int64_t room = piece > unit && f->level[piece].w ? f->level[piece].w : INT64_MAX, pieces = 0;
    for (int64_t e = 0; e < w->n; e++) {
        int64_t key = w->entries[e].key, last = e ? w->entries[e - 1].key : 0;
        bool opens = !e || w->at[e] != w->at[e - 1] || key / weight[unit] != last / weight[unit];
        if (!opens && piece > unit && key / weight[piece] != last / weight[piece]) opens = pieces++ == room;
        if (opens) pieces = 1;
        w->opens[e] = opens;
    }
}

/* A segment has more entries than its level holds: say where, in the tensor's words. */
static sparta_status crowded(sparta_ctx *cx, const sparta_pack_job *job, const sparta_assembly *a,
                             const int64_t weight[SPARTA_LEVELS], int64_t key)
{
    const sparta_format *f = job->format;
    const sparta_level *first = &f->level[0];
    char where[SPARTA_LEVELS * 32] = "the tensor", map[48];
    for (int l = 0, used = 0; l < a->number && used < (int)sizeof where; l++) {
        int64_t c = key / weight[l] % sparta_level_extent(&f->level[l], job->t->dim);
        sparta_level_print_map(f, &f->level[l], map);
        used += snprintf(where + used, sizeof where - (size_t)used, "%s%s = %lld", l ? ", " : "", map,
                         (long long)(c + sparta_level_origin(&f->level[l], job->t->dim)));
    }
    if (f->rank == 2 && a->number == 1 && first->map == SPARTA_MAP_ALL)
        snprintf(where, sizeof where, "%s %lld", first->dim ? "column" : "row", (long long)(key / weight[0]));
    long long n = a->longest, w = a->level->w, m = a->level->m;
    if (a->level->kind == SPARTA_LEVEL_STRUCTURED)
        return sparta_fail(
            cx, SPARTA_E_USAGE,
            "pack: %s has %lld nonzeros in %lld neighbours, structured[%lld,%lld] holds %lld; run a "
            "%lld:%lld sparsifier first",
            where, n, m, w, m, w, w, m);
    if (a->level->kind == SPARTA_LEVEL_SINGLETON)
        return sparta_fail(
            cx, SPARTA_E_USAGE,
            "pack: %s has %lld entries, a singleton holds 1; make the level above nonunique, or use "
            "packed[auto]",
            where, n);
    return sparta_fail(cx, SPARTA_E_USAGE,
                       "pack: %s has %lld entries, packed[%lld] holds %lld; use packed[%lld] or packed[auto]",
                       where, n, w, w, n);
}

static sparta_status count_level(sparta_ctx *cx, const sparta_assembly *a, sparta_format_stats *stats)
{
    stats->longest[a->number] = a->longest;
    stats->segments[a->number] = a->parents;
    if (sparta_size_add(stats->pos_bytes, a->pos_bytes, &stats->pos_bytes) &&
        sparta_size_add(stats->crd_bytes, a->crd_bytes, &stats->crd_bytes))
        return SPARTA_OK;
    return sparta_fail(cx, SPARTA_E_LIMIT, "format: the arrays are too large");
}

static sparta_status assemble(sparta_ctx *cx, const sparta_pack_job *job, const int64_t weight[SPARTA_LEVELS],
                              work *w, sparta_packed *out, sparta_format_stats *stats)
{
    const sparta_format *f = job->format;
    int64_t parents = 1;
    for (int l = 0; l < f->n; l++) {
        sparta_assembly a = {.level = &f->level[l],
                             .number = l,
                             .extent = sparta_level_extent(&f->level[l], job->t->dim),
                             .origin = sparta_level_origin(&f->level[l], job->t->dim),
                             .n = w->n,
                             .coord = w->coord,
                             .opens = w->opens,
                             .at = w->at,
                             .parents = parents,
                             .store = job->store,
                             .crowded = -1};
        for (int64_t i = 0; i < w->n; i++) w->coord[i] = w->entries[i].key / weight[l] % a.extent;
        find_openings(f, l, weight, w);
        sparta_status status = sparta_level_table[f->level[l].kind].ops->assemble(cx, &a);
        out->pos[l] = a.pos;
        out->crd[l] = a.crd;
        if (status && a.crowded >= 0) return crowded(cx, job, &a, weight, w->entries[a.crowded].key);
        SPARTA_TRY(status);
        SPARTA_TRY(sparta_check_cancel(cx));
        SPARTA_TRY(count_level(cx, &a, stats));
        parents = a.size;
    }
    stats->slots = parents;
    return SPARTA_OK;
}

/* aos: the coordinate arrays of neighbours become one, [positions][levels]. */
static sparta_status interleave(sparta_ctx *cx, const sparta_format *f, sparta_packed *out)
{
    for (int l = 0; l < f->n; l++) {
        int k = sparta_level_shares(f, l);
        if (k == 1 || f->level[l].properties & SPARTA_PROP_AOS) continue;
        sparta_tensor all;
        int64_t dim[2] = {out->crd[l].dim[0], k};
        sparta_dtype width = f->level[l].crd;
        SPARTA_TRY(sparta_tensor_alloc(cx, width, 2, dim, &all));
        for (int i = 0; i < k; i++)
            for (int64_t q = 0; q < dim[0]; q++)
                sparta_index_set(width, all.data, q * k + i,
                                 sparta_index_get(width, out->crd[l + i].data, q));
        for (int i = 0; i < k; i++) {
            sparta_free(cx, out->crd[l + i].data);
            out->crd[l + i] = i ? (sparta_tensor){0} : all;
        }
    }
    return SPARTA_OK;
}

static void copy_values(const sparta_tensor *t, const work *w, sparta_tensor *values)
{
    size_t size = sparta_dtype_size(t->dtype);
    for (int64_t i = 0; i < w->n; i++)
        memcpy((char *)values->data + (size_t)w->at[i] * size,
               (const char *)t->data + w->entries[i].source * (int64_t)size, size);
}

static sparta_status generic_with(sparta_ctx *cx, const sparta_pack_job *job, work *w, sparta_packed *out,
                                  sparta_format_stats *stats)
{
    int64_t weight[SPARTA_LEVELS];
    level_weights(job->format, job->t->dim, weight);
    SPARTA_TRY(gather(cx, job, weight, w));
    SPARTA_TRY(sort(cx, w));
    w->coord = sparta_alloc_array(cx, (size_t)w->n, sizeof *w->coord);
    SPARTA_NEED(cx, w->coord);
    w->at = sparta_alloc_array(cx, (size_t)w->n, sizeof *w->at);
    SPARTA_NEED(cx, w->at);
    w->opens = sparta_alloc_array(cx, (size_t)w->n, sizeof *w->opens);
    SPARTA_NEED(cx, w->opens);
    stats->elements = w->n;
    SPARTA_TRY(assemble(cx, job, weight, w, out, stats));
    SPARTA_TRY(sparta_tensor_bytes(cx, job->t->dtype, 1, &stats->slots, &stats->value_bytes));
    if (!job->store) return SPARTA_OK;
    SPARTA_TRY(interleave(cx, job->format, out));
    SPARTA_TRY(sparta_tensor_alloc(cx, job->t->dtype, 1, &stats->slots, &out->values));
    copy_values(job->t, w, &out->values);
    return SPARTA_OK;
}

sparta_status sparta_pack_generic(sparta_ctx *cx, const sparta_pack_job *job, sparta_packed *out,
                                  sparta_format_stats *stats)
{
    work w = {0};
    sparta_status status = generic_with(cx, job, &w, out, stats);
    work_free(cx, &w);
    return status;
}

/* ------------------------------------------------------------------ the public part */

static sparta_status job_check(sparta_ctx *cx, const sparta_pack_job *job)
{
    const sparta_tensor *t = job->t;
    const sparta_mask *m = job->mask;
    SPARTA_TRY(sparta_format_check(cx, job->format, t->rank, t->dim));
    if ((unsigned)t->dtype >= SPARTA_DTYPES)
        return sparta_fail(cx, SPARTA_E_DTYPE, "pack: type %d is unknown", (int)t->dtype);
    if (!m || (t->rank == 2 && m->rows == t->dim[0] && m->cols == t->dim[1])) return SPARTA_OK;
    if (t->rank != 2)
        return sparta_fail(cx, SPARTA_E_SHAPE, "pack: a mask goes with 2 dimensions, the tensor has %d",
                           t->rank);
    return sparta_fail(cx, SPARTA_E_SHAPE, "pack: the mask is %lldx%lld, the tensor %lldx%lld",
                       (long long)m->rows, (long long)m->cols, (long long)t->dim[0], (long long)t->dim[1]);
}

static sparta_status work_on(sparta_ctx *cx, const sparta_pack_job *job, sparta_packed *out,
                             sparta_format_stats *stats)
{
    SPARTA_TRY(job_check(cx, job));
    SPARTA_TRY(sparta_pack_blocks_can(job->format, job->t) ? sparta_pack_blocks(cx, job, out, stats)
                                                           : sparta_pack_generic(cx, job, out, stats));
    stats->fill = (double)stats->slots / (double)SPARTA_MAX(stats->elements, 1);
    if (!sparta_size_add(stats->pos_bytes, stats->crd_bytes, &stats->bytes) ||
        !sparta_size_add(stats->bytes, stats->value_bytes, &stats->bytes))
        return sparta_fail(cx, SPARTA_E_LIMIT, "format: the arrays are too large");
    return SPARTA_OK;
}

sparta_status sparta_format_measure(sparta_ctx *cx, const sparta_format *f, const sparta_tensor *t,
                                    const sparta_mask *mask, sparta_format_stats *out)
{
    sparta_packed none = {0};
    sparta_format_stats stats = {0};
    SPARTA_TRY(work_on(cx, &(sparta_pack_job){f, t, mask, false}, &none, &stats));
    *out = stats;
    return SPARTA_OK;
}

sparta_status sparta_format_within(sparta_ctx *cx, const sparta_format *f, const sparta_format_stats *stats,
                                   double limit)
{
    char detail[96] = "";
    bool dense = true;
    const char *instead = "use smaller blocks, or compressed levels of single elements";
    if (!(limit > 0)) limit = SPARTA_FORMAT_LIMIT;
    for (int l = 0; l < f->n; l++) {
        dense = dense && f->level[l].kind == SPARTA_LEVEL_DENSE;
        if (f->level[l].kind == SPARTA_LEVEL_RANGE)
            instead = "few of its diagonals are full: use compressed levels of i and j";
        if (f->level[l].kind == SPARTA_LEVEL_RAGGED) instead = "use compressed in place of ragged";
        if (f->level[l].kind != SPARTA_LEVEL_PACKED || l + 1 < f->n) continue;
        instead = "use compressed in place of packed";
        snprintf(detail, sizeof detail, "; longest segment %lld, mean %.1f", (long long)stats->longest[l],
                 (double)stats->elements / (double)SPARTA_MAX(stats->segments[l], 1));
    }
    if (dense || stats->fill <= limit) return SPARTA_OK;
    return sparta_fail(
        cx, SPARTA_E_LIMIT,
        "pack: the format would store %.1fx the nonzeros (limit %.1fx%s); %s, or raise the limit",
        stats->fill, limit, detail, instead);
}

sparta_status sparta_format_pack(sparta_ctx *cx, const sparta_format *f, const sparta_tensor *t,
                                 const sparta_mask *mask, sparta_packed *out)
{
    sparta_packed p = {.format = *f, .dtype = t->dtype, .rank = t->rank};
    sparta_format_stats stats = {0};
    if (t->rank > 0 && t->rank <= SPARTA_RANK) memcpy(p.dim, t->dim, (size_t)t->rank * sizeof p.dim[0]);
    sparta_status status = work_on(cx, &(sparta_pack_job){f, t, mask, true}, &p, &stats);
    if (status)
        sparta_packed_free(cx, &p);
    else
        *out = p;
    return status;
}

void sparta_packed_free(sparta_ctx *cx, sparta_packed *p)
{
    if (!p) return;
    for (int l = 0; l < SPARTA_LEVELS; l++) {
        sparta_free(cx, p->pos[l].data);
        sparta_free(cx, p->crd[l].data);
    }
    sparta_free(cx, p->values.data);
    *p = (sparta_packed){0};
}
