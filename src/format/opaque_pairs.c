/* pairs: how they are checked and walked; opaque_pairs.h draws them. */
#include "format/opaque_pairs.h"
#include "format/walk.h"
#include <string.h>

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
    if (p->crd[JOBS].dim[0] / WORDS < s.ranges * ((s.rows + 1) / 2)) /* before memory is asked for */
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
                                   .verify = verify,
                                   .walk = walk};
