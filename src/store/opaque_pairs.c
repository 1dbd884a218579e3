/* pairs: how they are packed; format/opaque_pairs.h draws them. */
#include "format/opaque_pairs.h"
#include "store/entries.h"
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ pack: who goes with whom */

typedef struct {
    shape s;
    const sp_entries *e;
    int64_t words;     /* of 64 columns, in a range */
    int64_t *from, *n; /* of each row: its first element in this range, and how many there are */
    int64_t *order;    /* rows, those with most elements first */
    int64_t *next;     /* of each row: the one after it that has as many elements and no partner yet */
    int64_t *most;     /* (width + 2) */
    uint64_t *bits;    /* (rows)(words) */
    job *job;          /* of this range */
    int64_t jobs;
} plan;

/* The elements of each row in this range; rows in the order of how many. */
static void enter(plan *p, int64_t range)
{
    const int64_t *k = p->e->index[1], *row = p->e->index[0];
    const int64_t base = range * p->s.width, width = p->s.width;
    memset(p->bits, 0, (size_t)(p->s.rows * p->words) * sizeof *p->bits);
    memset(p->most, 0, (size_t)(width + 2) * sizeof *p->most);
    for (int64_t r = 0; r < p->s.rows; r++) {
        int64_t i = p->from[r] += p->n[r];
        for (; i < p->e->n && row[i] == r && k[i] - base < width; i++)
            p->bits[r * p->words + (k[i] - base) / 64] |= UINT64_C(1) << (k[i] - base) % 64;
        p->n[r] = i - p->from[r];
        p->most[width - p->n[r] + 1]++;
    }
    for (int64_t i = 1; i <= width; i++) p->most[i] += p->most[i - 1];
    for (int64_t r = 0; r < p->s.rows; r++) p->order[p->most[width - p->n[r]]++] = r;
}

static int64_t common(const plan *p, int64_t a, int64_t b)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->words; i++)
        n += __builtin_popcountll(p->bits[a * p->words + i] & p->bits[b * p->words + i]);
    return n / FOUR * FOUR;
}

/* Of the next rows of the list the one that has most columns in common with row a; *before: the one before it. */
static int64_t partner(const plan *p, int64_t a, int64_t *shared, int64_t *before)
{
    int64_t best = -1, last = a;
    *shared = -1;
    for (int64_t b = p->next[a], i = 0; b >= 0 && i < LOOKED_AT; last = b, b = p->next[b], i++) {
        const int64_t n = common(p, a, b);
        if (n <= *shared) continue;
        best = b, *shared = n, *before = last;
        if (n >= p->n[a] / FOUR * FOUR) break;
    }
    return best;
}

/* The rows [from, to) of the order have equally many elements. */
static void pair_up(plan *p, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) p->next[p->order[i]] = i + 1 < to ? p->order[i + 1] : -1;
    for (int64_t a = p->order[from]; a >= 0; a = p->next[a]) {
        int64_t shared, before = a, b = partner(p, a, &shared, &before);
        if (b < 0)
            b = a, shared = 0;
        else
            p->next[before] = p->next[b];
        p->job[p->jobs++] = (job){{(uint32_t)a, (uint32_t)b}, (uint32_t)shared, (uint32_t)(p->n[a] - shared)};
    }
}

/* Those that share most first, then those with most of their own. */
static int longest_first(const void *x, const void *y)
{
    const job *a = x, *b = y;
    if (a->shared != b->shared) return a->shared < b->shared ? 1 : -1;
    if (a->own != b->own) return a->own < b->own ? 1 : -1;
    if (alone(a) != alone(b)) return alone(a) ? 1 : -1;
    return a->row[0] > b->row[0] ? 1 : -1;
}

static void plan_range(plan *p, int64_t range)
{
    enter(p, range);
    p->jobs = 0;
    for (int64_t i = 0, end; i < p->s.rows; i = end) {
        for (end = i + 1; end < p->s.rows && p->n[p->order[end]] == p->n[p->order[i]];) end++;
        pair_up(p, i, end);
    }
    qsort(p->job, (size_t)p->jobs, sizeof *p->job, longest_first);
}

static sparta_status plan_room(sparta_ctx *cx, sp_arena *arena, plan *p)
{
    const size_t rows = (size_t)p->s.rows;
    p->words = (p->s.width + 63) / 64;
    SP_NEED(cx, p->from = sp_arena_array(arena, rows, sizeof *p->from));
    SP_NEED(cx, p->n = sp_arena_array(arena, rows, sizeof *p->n));
    SP_NEED(cx, p->order = sp_arena_array(arena, rows, sizeof *p->order));
    SP_NEED(cx, p->next = sp_arena_array(arena, rows, sizeof *p->next));
    SP_NEED(cx, p->most = sp_arena_array(arena, (size_t)p->s.width + 2, sizeof *p->most));
    SP_NEED(cx, p->bits = sp_arena_array(arena, rows, (size_t)p->words * sizeof *p->bits));
    SP_NEED(cx, p->job = sp_arena_array(arena, rows, sizeof *p->job));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ pack: writing it down */

typedef struct {
    int64_t jobs, columns, elements, longest;
    job *job; /* NULL: only counted */
    uint16_t *index;
    char *value; /* NULL: a pattern */
} sheet;

static void put_value(const plan *p, const sheet *to, int64_t place, int64_t element)
{
    const int64_t size = (int64_t)sparta_dtype_size(p->e->dtype);
    if (to->value)
        memcpy(to->value + (to->elements + place) * size,
               (const char *)p->e->values + p->e->source[element] * size, (size_t)size);
}

/* Both rows column by column: the first that they share, as many as the job says; the others go to their own. */
static void put_job(const plan *p, const job *j, int64_t base, const sheet *to)
{
    const int64_t *k = p->e->index[1];
    const int rows = alone(j) ? 1 : 2;
    int64_t shared = 0, own[2] = {0, 0}, at[2], end[2] = {0, 0};
    for (int r = 0; r < 2; r++)
        at[r] = p->from[j->row[r]], end[r] = r < rows ? at[r] + p->n[j->row[r]] : at[r];
    while (at[0] < end[0] || at[1] < end[1]) {
        const int64_t next =
            SP_MIN(at[0] < end[0] ? k[at[0]] : INT64_MAX, at[1] < end[1] ? k[at[1]] : INT64_MAX);
        const bool has[2] = {at[0] < end[0] && k[at[0]] == next, at[1] < end[1] && k[at[1]] == next};
        const bool both = has[0] && has[1] && shared < j->shared;
        if (both) to->index[to->columns + shared] = (uint16_t)(next - base);
        for (int r = 0; r < rows; r++) {
            if (!has[r]) continue;
            const int64_t place = both ? 0 : own_place(j, r, own[r]++);
            if (!both) to->index[to->columns + j->shared + place] = (uint16_t)(next - base);
            put_value(p, to, both ? shared_place(shared) + r * FOUR : 2 * (int64_t)j->shared + place,
                      at[r]++);
        }
        shared += both;
    }
}

/* Every range; `to` is counted up and, where it has arrays, written. */
static sparta_status put_all(sparta_ctx *cx, plan *p, sheet *to)
{
    memset(p->from, 0, (size_t)p->s.rows * sizeof *p->from);
    memset(p->n, 0, (size_t)p->s.rows * sizeof *p->n);
    for (int64_t i = p->e->n - 1; i >= 0; i--) p->from[p->e->index[0][i]] = i;
    for (int64_t range = 0; range < p->s.ranges; range++) {
        plan_range(p, range);
        for (int64_t i = 0; i < p->jobs; i++) {
            const job *j = &p->job[i];
            if (to->job) to->job[to->jobs] = *j;
            if (to->job) put_job(p, j, range * p->s.width, to);
            to->jobs++;
            to->columns += columns_of(j);
            to->elements += elements_of(j);
            to->longest = SP_MAX(to->longest, columns_of(j));
        }
        SP_TRY(sp_check_cancel(cx));
    }
    return SPARTA_OK;
}

static sparta_status store_all(sparta_ctx *cx, plan *p, const sheet *counted, sp_packed *out)
{
    const int64_t jobs = counted->jobs * WORDS;
    SP_TRY(sp_tensor_alloc(cx, SPARTA_U32, 1, &jobs, &out->crd[JOBS]));
    SP_TRY(sp_tensor_alloc(cx, SPARTA_U16, 1, &counted->columns, &out->crd[INDEX]));
    if (p->e->values) SP_TRY(sp_tensor_alloc(cx, p->e->dtype, 1, &p->e->n, &out->values));
    return put_all(cx, p,
                   &(sheet){.job = out->crd[JOBS].data,
                            .index = out->crd[INDEX].data,
                            .value = p->e->values ? out->values.data : NULL});
}

sparta_status sp_opaque_pack_pairs(sparta_ctx *cx, const sp_format *f, const sp_entries *e, bool store,
                                   sp_packed *out, sp_store_stats *stats)
{
    plan p = {.s = shape_of(f, e->dim), .e = e};
    sheet counted = {0};
    sp_arena *arena = sp_arena_create(cx);
    SP_NEED(cx, arena);
    sparta_status status = plan_room(cx, arena, &p);
    if (!status) status = put_all(cx, &p, &counted);
    stats->elements = stats->slots = e->n;
    stats->crd_bytes = (size_t)counted.jobs * sizeof(job) + (size_t)counted.columns * sizeof(uint16_t);
    stats->value_bytes = e->values ? (size_t)e->n * sparta_dtype_size(e->dtype) : 0;
    stats->segments[0] = counted.jobs;
    stats->longest[0] = counted.longest;
    if (!status && store) status = store_all(cx, &p, &counted, out);
    sp_arena_free(arena);
    return status;
}
