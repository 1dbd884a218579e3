/* Turn: rows become columns. csr to csc, csc to csr, and any other source to a format of the other orientation.
 *
 *     line of row 5:  columns 2 7        count   how many each column gets, for each thread's range of rows
 *                                        scan    where each column begins, and in it each thread
 *     column 2:  ... 5                   write   at[2]++, at[7]++
 *     column 7:  ... 5
 *
 * Each thread has one range of neighbouring rows, so that the rows of a column ascend whatever the number of threads.
 */
#include "store/convert.h"
#include <string.h>

typedef struct {
    sp_convert_job *job;
    int threads;
    uint32_t *at;   /* [threads][cols] counts, then places */
    int64_t *begin; /* [threads + 1] rows */
    int64_t n;
    uint32_t *done;  /* [rows] entries dealt so far, where it is done by bands; else NULL */
    int64_t band;    /* columns dealt at a time */
    int64_t segment; /* entries of a row in a band, on average */
} turn;

enum {
    BAND = 512,    /* the most columns dealt at a time: what is collected of them fits the second cache */
    TOGETHER = 16, /* entries of a column that go out together */
    AHEAD = 6,     /* rows: their parts lie too far apart for the processor to guess */
    FAR = 1 << 14, /* columns: the ends of more lie in no near cache, and are fetched */
    SOON = 24,     /* entries ahead of the one that is written */
};

/* Ranges of about as many entries. */
static void share(const turn *t)
{
    const sp_source *s = t->job->from;
    int64_t all = s->start ? s->start[(s->rows + s->storage.a - 1) / s->storage.a] : s->rows;
    t->begin[0] = 0;
    for (int k = 1; k <= t->threads; k++) {
        int64_t row = k == t->threads ? s->rows : t->begin[k - 1], goal = all / t->threads * k;
        while (row < s->rows && (s->start ? s->start[row / s->storage.a] : row) < goal) row++;
        t->begin[k] = row;
    }
}

/* Entries of a flat source need no rows to be counted. */
static bool count_flat(const sp_source *s, int64_t lo, int64_t hi, uint32_t *at)
{
    const int32_t *col = s->crd;
    const uint32_t cols = (uint32_t)s->cols;
    for (int64_t row = lo, end; row < hi; row = end) {
        end = sp_source_some(s, row, hi);
        if (!sp_source_check(s, row, end)) return false;
        int64_t i = s->start[row], last = s->start[end];
        for (; i + 4 <= last; i += 4) { /* read once, checked, used: storage may change */
            uint32_t a = (uint32_t)col[i], b = (uint32_t)col[i + 1], c = (uint32_t)col[i + 2],
                     d = (uint32_t)col[i + 3];
            if ((a >= cols) | (b >= cols) | (c >= cols) | (d >= cols)) return false;
            at[a]++, at[b]++, at[c]++, at[d]++;
        }
        for (; i < last; i++) {
            uint32_t c = (uint32_t)col[i];
            if (c >= cols) return false;
            at[c]++;
        }
    }
    return true;
}

static bool count_columns(void *arg, int thread, int64_t lo, int64_t hi)
{
    const turn *t = arg;
    const sp_source *s = t->job->from;
    for (int64_t k = lo; k < hi; k++) {
        uint32_t *at = t->at + k * s->cols;
        if (s->flat && !count_flat(s, t->begin[k], t->begin[k + 1], at)) return false;
        for (int64_t row = t->begin[k]; !s->flat && row < t->begin[k + 1]; row++) {
            sp_line line;
            if (!s->read(s, row, &t->job->scratch[thread], &line)) return false;
            for (int64_t i = 0; i < line.n; i++) {
                if (!sp_line_in(line.col[i], s->cols)) return false;
                at[line.col[i]]++;
            }
        }
    }
    return true;
}

/* Counts become places; false: more than 32 bits count. */
static bool scan(turn *t)
{
    const int64_t cols = t->job->from->cols, all = t->threads * cols;
    int64_t *restrict count = t->job->count, n = 0;
    uint32_t *restrict at = t->at;
    for (int64_t c = 0; c < cols; c++) {
        count[c] = n;
        for (int64_t k = c; k < all; k += cols) {
            uint32_t here = at[k];
            at[k] = (uint32_t)n;
            n += here;
        }
    }
    count[cols] = t->n = n;
    return n <= UINT32_MAX;
}

/* Any source, any width of coordinates, and patterns: row by row. */
static bool deal_any(const turn *t, int64_t k, int thread)
{
    const sp_convert_job *job = t->job;
    const sp_source *s = job->from;
    uint32_t *at = t->at + k * s->cols;
    for (int64_t row = t->begin[k]; row < t->begin[k + 1]; row++) {
        sp_line line;
        if (!s->read(s, row, &job->scratch[thread], &line)) return false;
        for (int64_t i = 0; i < line.n; i++) {
            if (!sp_line_in(line.col[i], s->cols)) return false;
            uint32_t p = at[line.col[i]]++;
            if (p >= t->n) return false;
            sp_index_set(job->format->level[1].crd, job->out->crd[1].data, p, row);
            if (job->valued)
                memcpy((char *)job->out->values.data + p * s->size, line.value + (size_t)i * s->size,
                       s->size);
        }
    }
    return true;
}

/* How many rows begin with each entry of a range, after its first row: where rows are short, to guess the end of each
 * costs the processor more than the entries do. */
static void steps_of(const int64_t *start, int64_t row, int64_t end, uint32_t step[SP_SOURCE_SOME])
{
    memset(step, 0, SP_SOURCE_SOME * sizeof *step);
    for (int64_t r = row + 1; r < end; r++) step[start[r] - start[row]]++;
}

/* A flat source. Near: entry by entry. Far, many columns with few entries each: the same, with the ends of columns fetched ahead.
 * By bands, few columns with many: some columns at a time, rows taken up where the last band left them, and sixteen
 * entries of a column collected before they go out, for the ends of columns tend to share the sets of a cache. All
 * stop at a column that is none, or full: somebody changes the source. */
#define DEAL(T)                                                                                              \
    static bool near_##T(const turn *t, int64_t k)                                                           \
    {                                                                                                        \
        const sp_source *s = t->job->from;                                                                   \
        const T *value = (const T *)s->values;                                                               \
        const int32_t *col = s->crd;                                                                         \
        int32_t *restrict crd = t->job->out->crd[1].data;                                                    \
        T *restrict to = t->job->out->values.data;                                                           \
        uint32_t *restrict at = t->at + k * s->cols, all = (uint32_t)t->n, cols = (uint32_t)s->cols;         \
        for (int64_t row = t->begin[k]; row < t->begin[k + 1]; row++)                                        \
            for (int64_t i = s->start[row], end = s->start[row + 1]; i < end; i++) {                         \
                uint32_t c = (uint32_t)col[i], p;                                                            \
                if (c >= cols || (p = at[c]) >= all) return false;                                           \
                at[c] = p + 1;                                                                               \
                crd[p] = (int32_t)row;                                                                       \
                to[p] = value[i];                                                                            \
            }                                                                                                \
        return true;                                                                                         \
    }                                                                                                        \
    static bool far_##T(const turn *t, int64_t k)                                                            \
    {                                                                                                        \
        const sp_source *s = t->job->from;                                                                   \
        const T *value = (const T *)s->values;                                                               \
        const int32_t *col = s->crd;                                                                         \
        int32_t *restrict crd = t->job->out->crd[1].data;                                                    \
        T *restrict to = t->job->out->values.data;                                                           \
        uint32_t *restrict at = t->at + k * s->cols, all = (uint32_t)t->n, cols = (uint32_t)s->cols;         \
        uint32_t step[SP_SOURCE_SOME];                                                                       \
        const int64_t stop = t->begin[k + 1], soon = s->start[stop] - SOON;                                  \
        for (int64_t row = t->begin[k], end; row < stop; row = end) {                                        \
            int64_t here = row, first = s->start[row];                                                       \
            end = sp_source_some(s, row, stop);                                                              \
            steps_of(s->start, row, end, step);                                                              \
            for (int64_t i = first, last = s->start[end]; i < last; i++) {                                   \
                uint32_t c = (uint32_t)col[i], next = i < soon ? (uint32_t)col[i + SOON] : c, p;             \
                if (c >= cols || next >= cols || (p = at[c]) >= all) return false;                           \
                __builtin_prefetch(&crd[at[next]], 1);                                                       \
                __builtin_prefetch(&to[at[next]], 1);                                                        \
                if (i - first < SP_SOURCE_SOME) here += step[i - first];                                     \
                at[c] = p + 1;                                                                               \
                crd[p] = (int32_t)here;                                                                      \
                to[p] = value[i];                                                                            \
            }                                                                                                \
        }                                                                                                    \
        return true;                                                                                         \
    }                                                                                                        \
    static bool band_##T(const turn *t, int64_t k, uint32_t first)                                           \
    {                                                                                                        \
        const sp_source *s = t->job->from;                                                                   \
        int32_t *crd = t->job->out->crd[1].data;                                                             \
        T *to = t->job->out->values.data;                                                                    \
        uint32_t *at = t->at + k * s->cols, all = (uint32_t)t->n;                                            \
        uint32_t width = (uint32_t)SP_MIN(t->band, s->cols - first), n[BAND] = {0};                          \
        int32_t rows[BAND][TOGETHER];                                                                        \
        T values[BAND][TOGETHER];                                                                            \
        for (int64_t row = t->begin[k]; row < t->begin[k + 1]; row++) {                                      \
            int64_t begin = s->start[row] + t->done[row], i = begin, end = s->start[row + 1];                \
            const int32_t *col = s->crd;                                                                     \
            const T *value = (const T *)s->values;                                                           \
            if (row + AHEAD < t->begin[k + 1]) {                                                             \
                int64_t later = s->start[row + AHEAD] + t->done[row + AHEAD];                                \
                for (int64_t e = 0; e < t->segment; e += TOGETHER) {                                         \
                    __builtin_prefetch(col + later + e);                                                     \
                    __builtin_prefetch(value + later + e);                                                   \
                }                                                                                            \
            }                                                                                                \
            for (uint32_t c; i < end && (c = (uint32_t)col[i] - first) < width; i++) {                       \
                uint32_t m = n[c]++ % TOGETHER;                                                              \
                rows[c][m] = (int32_t)row;                                                                   \
                values[c][m] = value[i];                                                                     \
                if (m != TOGETHER - 1) continue;                                                             \
                uint32_t p = at[first + c];                                                                  \
                if (p > all || all - p < TOGETHER) return false;                                             \
                memcpy(crd + p, rows[c], sizeof rows[c]);                                                    \
                memcpy(to + p, values[c], sizeof values[c]);                                                 \
                __builtin_prefetch(crd + p + 2 * TOGETHER - 1, 1);                                           \
                __builtin_prefetch(to + p + 2 * TOGETHER - 1, 1);                                            \
                at[first + c] = p + TOGETHER;                                                                \
            }                                                                                                \
            t->done[row] += (uint32_t)(i - begin);                                                           \
        }                                                                                                    \
        for (uint32_t c = 0; c < width; c++) {                                                               \
            uint32_t p = at[first + c], m = n[c] % TOGETHER;                                                 \
            if (p > all || all - p < m) return false;                                                        \
            memcpy(crd + p, rows[c], m * sizeof rows[c][0]);                                                 \
            memcpy(to + p, values[c], m * sizeof values[c][0]);                                              \
        }                                                                                                    \
        return true;                                                                                         \
    }                                                                                                        \
    static bool turn_##T(const turn *t, int64_t k)                                                           \
    {                                                                                                        \
        bool fine = true;                                                                                    \
        if (!t->done) return t->job->from->cols > FAR ? far_##T(t, k) : near_##T(t, k);                      \
        for (int64_t c = 0; fine && c < t->job->from->cols; c += t->band)                                    \
            fine = band_##T(t, k, (uint32_t)c);                                                              \
        return fine;                                                                                         \
    }
SP_EACH_SIZE(DEAL)

static bool write_one(const turn *t, int64_t k, int thread)
{
    const sp_convert_job *job = t->job;
    if (!job->from->flat || !job->valued || job->format->level[1].crd != SPARTA_I32)
        return deal_any(t, k, thread);
    return SP_BY_SIZE(job->from->size, turn, t, k);
}

static bool write_columns(void *arg, int thread, int64_t lo, int64_t hi)
{
    const turn *t = arg;
    for (int64_t k = lo; k < hi; k++)
        if (!write_one(t, k, thread)) return false;
    return true;
}

static sparta_status arrays(const turn *t)
{
    sp_convert_job *job = t->job;
    const sp_level *l = &job->format->level[1];
    int64_t cols = job->from->cols;
    SP_TRY(sp_level_pos_fits(job->cx, l, 1, t->n));
    SP_TRY(sp_job_array(job, l->pos, cols + 1, false, &job->out->pos[1]));
    for (int64_t c = 0; c <= cols; c++) sp_index_set(l->pos, job->out->pos[1].data, c, job->count[c]);
    SP_TRY(sp_job_array(job, l->crd, t->n, false, &job->out->crd[1]));
    return job->valued ? sp_job_array(job, job->out->dtype, t->n, false, &job->out->values) : SPARTA_OK;
}

/* Bands pay where a row has many entries in each: as narrow as that allows. */
static sparta_status bands(turn *t)
{
    const sp_source *s = t->job->from;
    if (!s->flat || !s->rows || s->cols <= 2 * BAND) return SPARTA_OK;
    for (t->band = BAND / 4; t->band < BAND && t->n / s->rows * t->band / s->cols < 48;) t->band *= 2;
    t->segment = t->n / s->rows * t->band / s->cols;
    if (t->segment < 32) return SPARTA_OK;
    t->done = sp_alloc_array(t->job->cx, (size_t)s->rows, sizeof *t->done);
    SP_NEED(t->job->cx, t->done);
    return SPARTA_OK;
}

static sparta_status turn_with(turn *t, bool *can)
{
    share(t);
    *can = sp_pieces(t->job->pool, t->threads, count_columns, t) && scan(t);
    if (!*can) return SPARTA_OK;
    SP_TRY(arrays(t));
    SP_TRY(bands(t));
    SP_TRY(sp_check_cancel(t->job->cx));
    *can = sp_pieces(t->job->pool, t->threads, write_columns, t);
    return SPARTA_OK;
}

sparta_status sp_convert_turn(sp_convert_job *job, bool *can)
{
    turn t = {.job = job, .threads = sp_pieces_threads(job->pool)};
    t.at = sp_alloc_array(job->cx, (size_t)t.threads * (size_t)job->from->cols, sizeof *t.at);
    t.begin = sp_alloc_array(job->cx, (size_t)t.threads + 1, sizeof *t.begin);
    sparta_status status = t.at && t.begin ? turn_with(&t, can) : sp_ctx_status(job->cx);
    sp_free(job->cx, t.at);
    sp_free(job->cx, t.begin);
    sp_free(job->cx, t.done);
    return status;
}
