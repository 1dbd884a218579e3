/* Writers whose unit is one row: dense, csr, coo, dcsr, ell, bitmap, nm. Count the entries of each row, plan the
 * arrays, write them. A line may differ between the two passes only if somebody changes the source; write then gives
 * up rather than write elsewhere. */
#include "store/convert.h"
#include <string.h>

/* ------------------------------------------------------------------ what writers share */

sparta_status sp_job_array(sp_convert_job *job, sparta_dtype dtype, int64_t n, bool clear, sparta_tensor *out)
{
    size_t bytes;
    SP_TRY(sp_tensor_bytes(job->cx, dtype, 1, &n, &bytes));
    *out = sparta_tensor_view(dtype, 1, &n, NULL);
    if (job->measure) return SPARTA_OK;
    out->data = clear ? sp_zalloc(job->cx, bytes) : sp_alloc(job->cx, bytes);
    SP_NEED(job->cx, out->data);
    return SPARTA_OK;
}

static sparta_status values_array(sp_convert_job *job, int64_t n, bool clear)
{
    return job->valued ? sp_job_array(job, job->out->dtype, n, clear, &job->out->values) : SPARTA_OK;
}

int64_t sp_job_scan(sp_convert_job *job)
{
    int64_t sum = 0;
    for (int64_t u = 0; u <= job->units; u++) {
        int64_t n = u < job->units ? job->count[u] : 0;
        job->count[u] = sum;
        sum += n;
    }
    return sum;
}

void sp_columns_put(sparta_dtype width, void *to, int64_t at, const int32_t *col, int64_t n)
{
    switch (width) {
    case SPARTA_I32:
    case SPARTA_U32: memcpy((int32_t *)to + at, col, (size_t)n * sizeof *col); break;
    case SPARTA_U8:
        for (int64_t i = 0; i < n; i++) ((uint8_t *)to)[at + i] = (uint8_t)col[i];
        break;
    case SPARTA_U16:
        for (int64_t i = 0; i < n; i++) ((uint16_t *)to)[at + i] = (uint16_t)col[i];
        break;
    default:
        for (int64_t i = 0; i < n; i++) ((int64_t *)to)[at + i] = col[i];
    }
}

void sp_values_put(const sp_convert_job *job, int64_t at, const sp_line *line)
{
    size_t size = job->from->size;
    if (!job->valued || !line->n) return;
    char *to = (char *)job->out->values.data + (size_t)at * size;
    if (job->ones)
        memset(to, 1, (size_t)line->n);
    else
        memcpy(to, line->value, (size_t)line->n * size);
}

static bool count_rows(void *arg, int thread, int64_t lo, int64_t hi)
{
    sp_convert_job *job = arg;
    const sp_source *s = job->from;
    for (int64_t row = lo; row < hi; row++) {
        sp_line line = {0};
        bool fine = s->count ? s->count(s, row, &line.n) : s->read(s, row, &job->scratch[thread], &line);
        if (!fine) return false;
        job->count[row] = line.n;
    }
    return true;
}

/* The line of a row, checked. */
static bool checked_line(const sp_convert_job *job, int thread, int64_t row, sp_line *line)
{
    return sp_source_check(job->from, row, row + 1) &&
           job->from->read(job->from, row, &job->scratch[thread], line);
}

/* One that has as many entries as were counted. */
static bool counted_line(const sp_convert_job *job, int thread, int64_t row, sp_line *line)
{
    return checked_line(job, thread, row, line) && line->n == job->count[row + 1] - job->count[row];
}

/* pos of a level below `units` parents: where each begins. */
static sparta_status edges(sp_convert_job *job, int level, const int64_t *start, int64_t parents)
{
    sparta_dtype width = job->format->level[level].pos;
    SP_TRY(sp_level_pos_fits(job->cx, &job->format->level[level], level, start[parents]));
    SP_TRY(sp_job_array(job, width, parents + 1, false, &job->out->pos[level]));
    for (int64_t p = 0; p <= parents; p++) sp_job_set(&job->out->pos[level], p, start[p]);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ csr, coo */

/* Neighbouring rows of a flat source in one go, a few thousand entries at a time: copy, then check the copy. */
static bool copy_flat(const sp_convert_job *job, int64_t lo, int64_t hi)
{
    const sp_source *s = job->from;
    int32_t *col = job->out->crd[1].data;
    for (int64_t row = lo, end; row < hi; row = end) {
        end = sp_source_some(s, row, hi);
        int64_t at = s->start[row], n = s->start[end] - at;
        sp_line all = {n, (const int32_t *)s->crd + at, s->values ? s->values + (size_t)at * s->size : NULL};
        memcpy(col + at, all.col, (size_t)n * sizeof *col);
        if (!sp_source_ascend(s, row, end, col + at)) return false;
        sp_values_put(job, at, &all);
    }
    return true;
}

/* Straight from a dense row into place. */
static bool copy_dense(const sp_convert_job *job, int64_t lo, int64_t hi)
{
    const sp_source *s = job->from;
    int32_t *col = job->out->crd[1].data;
    char *value = job->out->values.data;
    for (int64_t row = lo; row < hi; row++) {
        /* Room up to the end of the piece: whole vectors may run over into the rows that follow. */
        int64_t at = job->count[row], n = job->count[row + 1] - at, room = job->count[hi] - at;
        const char *from = s->values + (size_t)(row * s->cols) * s->size;
        if (n && sp_dense_entries(from, s->cols, s->size, room, col + at, value + (size_t)at * s->size) != n)
            return false;
    }
    return true;
}

static bool write_entries(void *arg, int thread, int64_t lo, int64_t hi)
{
    sp_convert_job *job = arg;
    const sp_source *s = job->from;
    sparta_dtype width = job->format->level[1].crd;
    if (s->flat && width == SPARTA_I32) return copy_flat(job, lo, hi);
    if (s->storage.kind == SP_STORAGE_DENSE && width == SPARTA_I32 && job->valued && !job->ones)
        return copy_dense(job, lo, hi);
    for (int64_t row = lo; row < hi; row++) {
        sp_line line;
        if (!counted_line(job, thread, row, &line)) return false;
        sp_columns_put(width, job->out->crd[1].data, job->count[row], line.col, line.n);
        sp_values_put(job, job->count[row], &line);
    }
    return true;
}

/* Entries that the reader had to sort are the arrays themselves. */
static bool take_sorted(sp_convert_job *job, int64_t n)
{
    sp_source *s = job->from;
    if (job->measure || !s->own_col || job->format->level[1].crd != SPARTA_I32 ||
        (job->valued && !s->own_value))
        return false;
    job->out->crd[1] = sparta_tensor_view(SPARTA_I32, 1, &n, s->own_col);
    s->own_col = NULL;
    if (!job->valued) return true;
    job->out->values = sparta_tensor_view(job->out->dtype, 1, &n, s->own_value);
    s->own_value = NULL;
    return true;
}

static sparta_status entries_arrays(sp_convert_job *job, int64_t n)
{
    if (take_sorted(job, n)) return SPARTA_OK;
    SP_TRY(sp_job_array(job, job->format->level[1].crd, n, false, &job->out->crd[1]));
    return values_array(job, n, false);
}

static sparta_status plan_csr(sp_convert_job *job, bool *can)
{
    (void)can;
    int64_t n = sp_job_scan(job);
    SP_TRY(edges(job, 1, job->count, job->units));
    return entries_arrays(job, n);
}

/* The entries were taken: nothing is left to do. */
static bool taken(const sp_convert_job *job)
{
    return job->from->start && job->out->crd[1].data == job->from->crd;
}

static bool write_csr(void *arg, int thread, int64_t lo, int64_t hi)
{
    return taken(arg) || write_entries(arg, thread, lo, hi);
}
const sp_writer sp_writer_csr = {count_rows, plan_csr, write_csr};

static sparta_status plan_coo(sp_convert_job *job, bool *can)
{
    (void)can;
    int64_t n = sp_job_scan(job), all[2] = {0, n};
    SP_TRY(edges(job, 0, all, 1));
    SP_TRY(sp_job_array(job, job->format->level[0].crd, n, false, &job->out->crd[0]));
    return entries_arrays(job, n);
}

static bool write_coo(void *arg, int thread, int64_t lo, int64_t hi)
{
    sp_convert_job *job = arg;
    for (int64_t row = lo; row < hi; row++)
        for (int64_t at = job->count[row]; at < job->count[row + 1]; at++)
            sp_index_set(job->format->level[0].crd, job->out->crd[0].data, at, row);
    return write_csr(arg, thread, lo, hi);
}
const sp_writer sp_writer_coo = {count_rows, plan_coo, write_coo};

/* ------------------------------------------------------------------ dcsr: only rows that are there */

static sparta_status plan_dcsr(sp_convert_job *job, bool *can)
{
    (void)can;
    int64_t n = sp_job_scan(job), there = 0;
    sparta_dtype crd = job->format->level[0].crd, pos = job->format->level[1].pos;
    for (int64_t row = 0; row < job->units; row++) there += job->count[row] < job->count[row + 1];
    int64_t all[2] = {0, there};
    SP_TRY(edges(job, 0, all, 1));
    SP_TRY(sp_level_pos_fits(job->cx, &job->format->level[1], 1, n));
    SP_TRY(sp_job_array(job, crd, there, false, &job->out->crd[0]));
    SP_TRY(sp_job_array(job, pos, there + 1, true, &job->out->pos[1]));
    for (int64_t row = 0, q = 0; row < job->units; row++) {
        if (job->count[row] == job->count[row + 1]) continue;
        sp_job_set(&job->out->crd[0], q++, row);
        sp_job_set(&job->out->pos[1], q, job->count[row + 1]);
    }
    return entries_arrays(job, n);
}
const sp_writer sp_writer_dcsr = {count_rows, plan_dcsr, write_csr};

/* ------------------------------------------------------------------ dense */

static sparta_status plan_dense(sp_convert_job *job, bool *can)
{
    int64_t n = job->from->rows * job->from->cols; /* the product was checked */
    (void)can;
    return job->into ? SPARTA_OK : values_array(job, n, true);
}

/* out[col * step] = value, for each size of value. */
#define SCATTER(T)                                                                                           \
    static bool scatter_##T(const sp_line *line, int64_t cols, T *restrict out, int64_t step)                \
    {                                                                                                        \
        const T *value = (const T *)line->value;                                                             \
        const int32_t *col = line->col;                                                                      \
        int64_t n = line->n, i = 0;                                                                          \
        if (!value) /* a pattern: T is a byte */                                                             \
            for (; i < n && sp_line_in(col[i], cols); i++) out[col[i] * step] = 1;                           \
        else if (step == 1)                                                                                  \
            for (; i < n && sp_line_in(col[i], cols); i++) out[(uint32_t)col[i]] = value[i];                 \
        else                                                                                                 \
            for (; i < n && sp_line_in(col[i], cols); i++) out[col[i] * step] = value[i];                    \
        return i == n;                                                                                       \
    }
SP_EACH_SIZE(SCATTER)

static bool write_dense(void *arg, int thread, int64_t lo, int64_t hi)
{
    sp_convert_job *job = arg;
    const sp_source *s = job->from;
    bool across = s->storage.turned != job->storage.turned;
    const sparta_tensor *t = job->into;
    int64_t step[2] = {across ? 1 : s->cols, across ? s->rows : 1}, checked = lo;
    if (t) step[0] = t->stride[s->storage.turned], step[1] = t->stride[!s->storage.turned];
    char *base = t ? t->data : job->out->values.data;
    for (int64_t row = lo; row < hi; row++) {
        sp_line line;
        if (row == checked && !sp_source_check(s, row, checked = sp_source_some(s, row, hi))) return false;
        if (!s->read(s, row, &job->scratch[thread], &line)) return false;
        if (job->ones) line.value = NULL;
        void *to = base + row * step[0] * (int64_t)s->size;
        if (!SP_BY_SIZE(s->size, scatter, &line, s->cols, to, step[1])) return false;
    }
    return true;
}
const sp_writer sp_writer_dense = {NULL, plan_dense, write_dense};

/* ------------------------------------------------------------------ ell: every row as many slots */

static sparta_status plan_ell(sp_convert_job *job, bool *can)
{
    const sp_level *l = &job->format->level[1];
    int64_t most = 0, w = l->w, n;
    for (int64_t row = 0; row < job->units; row++) most = SP_MAX(most, job->count[row]);
    *can = !w || most <= w; /* else the generic path says which row */
    if (!*can) return SPARTA_OK;
    if (!w) w = most;
    if (!job->from->cols) w = 0;
    job->wide = w;
    SP_TRY(sp_level_product(job->cx, 1, job->units, w, &n));
    SP_TRY(sp_job_array(job, l->crd, n, false, &job->out->crd[1]));
    return values_array(job, n, true);
}

static bool write_ell(void *arg, int thread, int64_t lo, int64_t hi)
{
    sp_convert_job *job = arg;
    const sp_level *l = &job->format->level[1];
    bool zero = l->properties & SP_PROP_PAD_ZERO;
    for (int64_t row = lo; row < hi; row++) {
        sp_line line;
        int64_t at = row * job->wide;
        if (!checked_line(job, thread, row, &line) || line.n != job->count[row]) return false;
        int64_t pad = line.n && !zero ? line.col[line.n - 1] : 0;
        sp_columns_put(l->crd, job->out->crd[1].data, at, line.col, line.n);
        for (int64_t k = line.n; k < job->wide; k++) sp_index_set(l->crd, job->out->crd[1].data, at + k, pad);
        sp_values_put(job, at, &line);
    }
    return true;
}
const sp_writer sp_writer_ell = {count_rows, plan_ell, write_ell};

/* ------------------------------------------------------------------ bitmap */

static sparta_status plan_bitmap(sp_convert_job *job, bool *can)
{
    int64_t n = sp_job_scan(job), bytes;
    (void)can;
    SP_TRY(edges(job, 1, job->count, job->units));
    SP_TRY(sp_level_product(job->cx, 1, job->units, (job->from->cols + 7) / 8, &bytes));
    SP_TRY(sp_job_array(job, SPARTA_U8, bytes, true, &job->out->crd[1]));
    return values_array(job, n, false);
}

static bool write_bitmap(void *arg, int thread, int64_t lo, int64_t hi)
{
    sp_convert_job *job = arg;
    int64_t bytes = (job->from->cols + 7) / 8;
    for (int64_t row = lo; row < hi; row++) {
        sp_line line;
        uint8_t *bits = (uint8_t *)job->out->crd[1].data + row * bytes;
        if (!counted_line(job, thread, row, &line)) return false;
        for (int64_t i = 0; i < line.n; i++) {
            int32_t c = line.col[i];
            if (!sp_line_in(c, job->from->cols)) return false;
            bits[c / 8] |= (uint8_t)(1 << c % 8);
        }
        sp_values_put(job, job->count[row], &line);
    }
    return true;
}
const sp_writer sp_writer_bitmap = {count_rows, plan_bitmap, write_bitmap};

/* ------------------------------------------------------------------ nm: w of each m */

static int64_t nm_bytes(const sp_level *l) /* entries of crd of one segment */
{
    return l->crd_bits ? (l->w * l->crd_bits + 7) / 8 : l->w;
}

static sparta_status plan_nm(sp_convert_job *job, bool *can)
{
    const sp_level *l = &job->format->level[2];
    int64_t segments, n;
    *can = job->from->cols > 0;
    if (!*can) return SPARTA_OK;
    SP_TRY(sp_level_product(job->cx, 1, job->units, (job->from->cols + l->m - 1) / l->m, &segments));
    SP_TRY(sp_level_product(job->cx, 2, segments, nm_bytes(l), &n));
    SP_TRY(sp_job_array(job, l->crd, n, true, &job->out->crd[2]));
    SP_TRY(sp_level_product(job->cx, 2, segments, l->w, &n));
    return values_array(job, n, true);
}

static void nm_put(const sp_level *l, void *crd, int64_t segment, int64_t slot, int64_t c)
{
    int64_t each = l->crd_bits ? 8 / l->crd_bits : 1;
    if (!l->crd_bits)
        sp_index_set(l->crd, crd, segment * l->w + slot, c);
    else
        ((uint8_t *)crd)[segment * nm_bytes(l) + slot / each] |= (uint8_t)(c << slot % each * l->crd_bits);
}

/* The entries of one group, from line entry `first` on; returns where the next begins, -1: they are too many. */
static int64_t nm_group(const sp_convert_job *job, int64_t row, const sp_line *line, int64_t first)
{
    const sp_level *l = &job->format->level[2];
    const int32_t col = line->col[first]; /* once: storage may change */
    int64_t groups = (job->from->cols + l->m - 1) / l->m, g = col / l->m, end = first, last = 0;
    int64_t segment = row * groups + g;
    if (!sp_line_in(col, job->from->cols)) return -1;
    for (; end < line->n; end++) {
        int64_t c = line->col[end] - g * l->m;
        if (c < 0 || c >= l->m) break;
        if (end - first == l->w) return -1; /* the generic path says where */
        nm_put(l, job->out->crd[2].data, segment, end - first, last = c);
    }
    for (int64_t k = end - first; !(l->properties & SP_PROP_PAD_ZERO) && k < l->w; k++)
        nm_put(l, job->out->crd[2].data, segment, k, last);
    sp_line some = {end - first, NULL, line->value ? line->value + (size_t)first * job->from->size : NULL};
    sp_values_put(job, segment * l->w, &some);
    return end > first ? end : -1;
}

static bool write_nm(void *arg, int thread, int64_t lo, int64_t hi)
{
    sp_convert_job *job = arg;
    for (int64_t row = lo; row < hi; row++) {
        sp_line line;
        if (!checked_line(job, thread, row, &line)) return false;
        for (int64_t i = 0; i < line.n;)
            if ((i = nm_group(job, row, &line, i)) < 0) return false;
    }
    return true;
}
const sp_writer sp_writer_nm = {NULL, plan_nm, write_nm};
