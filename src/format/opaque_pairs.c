/* pairs(K): rows two by two, for unstructured weights that are a twentieth to two fifths full. K columns make a range (none: all); in each
 * range rows that have equally many elements, and if possible the same columns, make a pair:
 *
 *      k 0 1 2 3 4 5 6                jobs     0 2  4 2     rows 0 and 2: 4 columns shared, and 2 more of each
 *      row 0     a b c d e . f                 1 1  0 1     row 1 is alone: 1 column
 *      row 1     . . . x . . .        index    0 1 2 3   4 5   6 6   3        columns within the range, u16
 *      row 2     p q r s . t u        values   a b c d   p q r s   e t   f u   x
 *
 * Shared columns come in fours, first the four elements of the one row, then of the other. The others: fours of the one row and fours of
 * the other in turn, at last single ones in turn. Ranges lie one after the other; every row is in one job of each. The jobs of a range
 * are sorted by their two numbers, so that the loops of a kernel are as long as the time before and their ends no surprise.
 */
#include "format/entries.h"
#include <stdlib.h>
#include <string.h>

enum { JOBS, INDEX, FOUR = 4, WORDS = 4, WIDEST = 1 << 16, LOOKED_AT = 128 };

typedef struct job { /* as it is stored: 4 numbers, u32 */
    uint32_t row[2], shared, own;
} job;

typedef struct {
    int64_t rows, cols;
    int64_t width, ranges; /* columns of a range */
} shape;

static shape shape_of(const sp_format *f, const int64_t *dim)
{
    shape s = {.rows = dim[1] ? dim[0] : 0, .cols = dim[1]}; /* rows without columns take no memory */
    s.width = f->argument[0] ? SP_MIN(f->argument[0], s.cols) : s.cols;
    s.width = SP_MAX(s.width, 1);
    s.ranges = s.rows ? s.cols / s.width + (s.cols % s.width != 0) : 0;
    return s;
}

static sparta_status check(sparta_ctx *cx, const sp_format *f, int rank, const int64_t *dim)
{
    int64_t k = f->argument[0], all;
    if (rank != 2)
        return sp_fail(cx, SPARTA_E_USAGE, "format: pairs is for 2 dimensions, the tensor has %d", rank);
    if (k < 0 || k > WIDEST || (!k && dim[1] > WIDEST))
        return sp_fail(cx, SPARTA_E_USAGE,
                       "format: pairs: indices are u16, a range of %lld columns is too wide; use pairs(K) "
                       "with K from 1 to %d",
                       (long long)(k ? k : dim[1]), WIDEST);
    if (dim[0] < 0 || dim[1] < 0)
        return sp_fail(cx, SPARTA_E_SHAPE, "format: pairs: %lld x %lld is no shape", (long long)dim[0],
                       (long long)dim[1]);
    shape s = shape_of(f, dim);
    if (s.rows > UINT32_MAX || !sp_int_mul(s.ranges, s.rows, &all) ||
        !sp_int_mul(all, SP_MAX(s.width, (int64_t)sizeof(job)) * 2, &all))
        return sp_fail(cx, SPARTA_E_LIMIT, "format: pairs: %lld x %lld is too large", (long long)dim[0],
                       (long long)dim[1]);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ a job */

static bool alone(const job *j)
{
    return j->row[0] == j->row[1];
}
static int64_t columns_of(const job *j)
{
    return (int64_t)j->shared + (int64_t)j->own * (alone(j) ? 1 : 2);
}
static int64_t elements_of(const job *j)
{
    return columns_of(j) + j->shared;
}
/* Where the value of shared column i is; that of the second row four further on. */
static int64_t shared_place(int64_t i)
{
    return i / FOUR * 2 * FOUR + i % FOUR;
}
/* Of the columns that are not shared, which is the i-th of the pair's row r, and the other way round. */
static int64_t own_place(const job *j, int r, int64_t i)
{
    if (alone(j)) return i;
    return i < j->own / FOUR * FOUR ? i / FOUR * 2 * FOUR + r * FOUR + i % FOUR : 2 * i + r;
}
static int own_row(const job *j, int64_t place)
{
    if (alone(j)) return 0;
    return (int)(place < (int64_t)j->own / FOUR * 2 * FOUR ? place / FOUR % 2 : place % 2);
}

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

static sparta_status plan_room(sparta_ctx *cx, plan *p)
{
    const size_t rows = (size_t)p->s.rows;
    p->words = (p->s.width + 63) / 64;
    SP_NEED(cx, p->from = sp_alloc_array(cx, rows, sizeof *p->from));
    SP_NEED(cx, p->n = sp_alloc_array(cx, rows, sizeof *p->n));
    SP_NEED(cx, p->order = sp_alloc_array(cx, rows, sizeof *p->order));
    SP_NEED(cx, p->next = sp_alloc_array(cx, rows, sizeof *p->next));
    SP_NEED(cx, p->most = sp_alloc_array(cx, (size_t)p->s.width + 2, sizeof *p->most));
    SP_NEED(cx, p->bits = sp_alloc_array(cx, rows, (size_t)p->words * sizeof *p->bits));
    SP_NEED(cx, p->job = sp_alloc_array(cx, rows, sizeof *p->job));
    return SPARTA_OK;
}

static void plan_free(sparta_ctx *cx, plan *p)
{
    sp_free(cx, p->from);
    sp_free(cx, p->n);
    sp_free(cx, p->order);
    sp_free(cx, p->next);
    sp_free(cx, p->most);
    sp_free(cx, p->bits);
    sp_free(cx, p->job);
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

static sparta_status pack(sparta_ctx *cx, const sp_format *f, const sp_entries *e, bool store, sp_packed *out,
                          sp_format_stats *stats)
{
    plan p = {.s = shape_of(f, e->dim), .e = e};
    sheet counted = {0};
    sparta_status status = plan_room(cx, &p);
    if (!status) status = put_all(cx, &p, &counted);
    stats->elements = stats->slots = e->n;
    stats->crd_bytes = (size_t)counted.jobs * sizeof(job) + (size_t)counted.columns * sizeof(uint16_t);
    stats->value_bytes = e->values ? (size_t)e->n * sparta_dtype_size(e->dtype) : 0;
    stats->segments[0] = counted.jobs;
    stats->longest[0] = counted.longest;
    if (!status && store) status = store_all(cx, &p, &counted, out);
    plan_free(cx, &p);
    return status;
}

/* ------------------------------------------------------------------ read */

/* The columns of a job, from `at` on: each row's ascend, shared and others apart. */
static sparta_status columns_verify(sparta_ctx *cx, const uint16_t *index, const job *j, int64_t at,
                                    int64_t room)
{
    int64_t last[3] = {-1, -1, -1};
    for (int64_t i = 0; i < columns_of(j); i++) {
        const int list = i < j->shared ? 2 : own_row(j, i - j->shared);
        if (index[at + i] >= room || index[at + i] <= last[list])
            return sp_fail(cx, SPARTA_E_FORMAT,
                           "packed: pairs: index[%lld] is %d after %lld; the columns of a row ascend "
                           "and are below %lld",
                           (long long)(at + i), index[at + i], (long long)last[list], (long long)room);
        last[list] = index[at + i];
    }
    return SPARTA_OK;
}

static sparta_status job_verify(sparta_ctx *cx, const shape *s, const job *j, int64_t i, uint64_t *seen)
{
    for (int r = 0; r < (alone(j) ? 1 : 2); r++) {
        const uint32_t row = j->row[r];
        if (row >= s->rows || seen[row / 64] >> row % 64 & 1)
            return sp_fail(cx, SPARTA_E_FORMAT,
                           "packed: pairs: job %lld has row %u, which is none of %lld or had its turn",
                           (long long)i, row, (long long)s->rows);
        seen[row / 64] |= UINT64_C(1) << row % 64;
    }
    if (j->shared % FOUR || (j->shared && alone(j)))
        return sp_fail(cx, SPARTA_E_FORMAT,
                       "packed: pairs: job %lld shares %u columns; fours are shared, by two rows",
                       (long long)i, j->shared);
    return SPARTA_OK;
}

/* Every job; what they say adds up to ranges, columns and elements. */
static sparta_status jobs_verify(sparta_ctx *cx, const shape *s, const sp_packed *p, uint64_t *seen,
                                 int64_t *elements)
{
    const int64_t jobs = p->crd[JOBS].dim[0] / WORDS, columns = p->crd[INDEX].dim[0];
    int64_t range = 0, rows = 0, at = 0;
    for (int64_t i = 0; i < jobs; i++) {
        job own;
        const job *j = memcpy(&own, (const job *)p->crd[JOBS].data + i, sizeof own); /* read once */
        if (range == s->ranges)
            return sp_fail(cx, SPARTA_E_FORMAT, "packed: pairs: %lld jobs, %lld are enough", (long long)jobs,
                           (long long)i);
        SP_TRY(job_verify(cx, s, j, i, seen));
        if (columns_of(j) > columns - at)
            return sp_fail(cx, SPARTA_E_FORMAT,
                           "packed: pairs: job %lld has %lld columns, index has %lld entries left",
                           (long long)i, (long long)columns_of(j), (long long)(columns - at));
        SP_TRY(columns_verify(cx, p->crd[INDEX].data, j, at, SP_MIN(s->width, s->cols - range * s->width)));
        at += columns_of(j);
        *elements += elements_of(j);
        rows += alone(j) ? 1 : 2;
        if (rows < s->rows) continue;
        memset(seen, 0, (size_t)(s->rows + 63) / 64 * sizeof *seen);
        rows = 0, range++;
    }
    if (range != s->ranges || at != columns)
        return sp_fail(cx, SPARTA_E_FORMAT,
                       "packed: pairs: jobs say %lld columns in %lld ranges, index has %lld, the shape "
                       "%lld",
                       (long long)at, (long long)range, (long long)columns, (long long)s->ranges);
    return SPARTA_OK;
}

static sparta_status verify(sparta_ctx *cx, const sp_packed *p)
{
    shape s = shape_of(&p->format, p->dim);
    int64_t elements = 0;
    SP_TRY(sp_array_check(cx, &p->crd[JOBS], SPARTA_U32, "jobs"));
    SP_TRY(sp_array_check(cx, &p->crd[INDEX], SPARTA_U16, "index"));
    if (p->crd[JOBS].dim[0] % WORDS)
        return sp_fail(cx, SPARTA_E_FORMAT, "packed: pairs: jobs has %lld entries, each job has %d",
                       (long long)p->crd[JOBS].dim[0], WORDS);
    if (p->crd[JOBS].dim[0] / WORDS < s.ranges * ((s.rows + 1) / 2)) /* before there is memory for so many */
        return sp_fail(cx, SPARTA_E_FORMAT, "packed: pairs: %lld jobs, %lld ranges of %lld rows need more",
                       (long long)(p->crd[JOBS].dim[0] / WORDS), (long long)s.ranges, (long long)s.rows);
    uint64_t *seen = sp_alloc_array(cx, (size_t)(s.rows + 63) / 64, sizeof *seen);
    SP_NEED(cx, seen);
    sparta_status status = jobs_verify(cx, &s, p, seen, &elements);
    sp_free(cx, seen);
    SP_TRY(status);
    return sp_values_check(cx, p, false, elements);
}

typedef struct {
    sparta_ctx *cx;
    const sp_packed *p;
    shape s;
    int64_t range, column, element; /* of the job that is visited */
} visitor;

static sparta_status see(const visitor *v, const job *j, int r, uint16_t k, int64_t position, sp_visit visit,
                         void *arg)
{
    const int64_t place[2] = {j->row[r], v->range * v->s.width + k};
    if (place[0] >= v->s.rows || place[1] >= v->s.cols || (!v->p->pattern && position >= v->p->values.dim[0]))
        return sp_fail(v->cx, SPARTA_E_FORMAT, "packed: pairs: the storage changed");
    return visit(arg, place, v->p, position);
}

static sparta_status walk_job(const visitor *v, const job *j, sp_visit visit, void *arg)
{
    const uint16_t *index = (const uint16_t *)v->p->crd[INDEX].data + v->column;
    if (columns_of(j) > v->p->crd[INDEX].dim[0] - v->column)
        return sp_fail(v->cx, SPARTA_E_FORMAT, "packed: pairs: the storage changed");
    for (int64_t i = 0; i < j->shared; i++)
        for (int r = 0; r < 2; r++)
            SP_TRY(see(v, j, r, index[i], v->element + shared_place(i) + r * FOUR, visit, arg));
    for (int64_t i = j->shared; i < columns_of(j); i++)
        SP_TRY(see(v, j, own_row(j, i - j->shared), index[i], v->element + j->shared + i, visit, arg));
    return SPARTA_OK;
}

/* Bounds are looked at again, and each job is read once: a mapped file may change under us. */
static sparta_status walk(sparta_ctx *cx, const sp_packed *p, sp_visit visit, void *arg)
{
    visitor v = {.cx = cx, .p = p, .s = shape_of(&p->format, p->dim)};
    const int64_t jobs = p->crd[JOBS].dim[0] / WORDS;
    int64_t rows = 0;
    for (int64_t i = 0; i < jobs; i++) {
        job j;
        memcpy(&j, (const job *)p->crd[JOBS].data + i, sizeof j);
        SP_TRY(walk_job(&v, &j, visit, arg));
        v.column += columns_of(&j);
        v.element += elements_of(&j);
        rows += alone(&j) ? 1 : 2;
        if (rows >= v.s.rows) rows = 0, v.range++;
        if (i % 1024 == 0) SP_TRY(sp_check_cancel(cx));
    }
    return SPARTA_OK;
}

const sp_opaque sp_opaque_pairs = {.name = "pairs",
                                   .arguments = 1,
                                   .most = WIDEST,
                                   .usage = "pairs or pairs(K): K columns to a range, 1 to 65536",
                                   .array = {"jobs", "index"},
                                   .check = check,
                                   .pack = pack,
                                   .verify = verify,
                                   .walk = walk};
