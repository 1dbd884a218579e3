/* Sums of tables: hyb(c,k), and whatever else sorts rows into packed levels by their length.
 *
 *     sum{colpart(c) -> sum{rownnz<=1 -> (i:compressed, j:packed[1]); rownnz in (1,2] -> ..; rest -> (i:compressed(nonunique), j:packed[4])}}
 *
 *     part of the columns p, row      ->  leaf (bucket by the count of the row there), position of the row in its table
 *
 * Reader and writer keep this directory, one entry for each part of the columns and row. A row of the last bucket that is
 * longer than its table is wide lies in several positions, one after the other.
 */
#include "store/convert.h"
#include <string.h>

/* ------------------------------------------------------------------ which sums */

static bool is_table(const sp_format *f)
{
    const sp_level *l = f->level;
    return !f->sum && !f->opaque && f->rank == 2 && f->n == 2 && l[0].kind == SP_LEVEL_COMPRESSED &&
           l[0].dim == 0 && l[0].map == SP_MAP_ALL && !(l[0].properties & ~(unsigned)SP_PROP_NONUNIQUE) &&
           l[1].kind == SP_LEVEL_PACKED && l[1].dim == 1 && l[1].map == SP_MAP_ALL && l[1].w > 0 &&
           !(l[1].properties & ~(unsigned)SP_PROP_PAD_ZERO) && !l[1].crd_bits;
}

/* The buckets, and in how many parts of the columns. */
static const sp_sum *buckets_of(const sp_format *f, int64_t *parts)
{
    const sp_sum *sum = f->sum;
    *parts = 1;
    if (sum && sum->n == 1 && sum->part[0].select.kind == SP_SELECT_COLPART) {
        *parts = sum->part[0].select.b;
        sum = sum->part[0].format.sum;
    }
    return sum;
}

bool sp_hyb_is(const sp_format *f)
{
    int64_t parts;
    const sp_sum *sum = buckets_of(f, &parts);
    if (!sum || f->rank != 2 || parts < 1 || parts * sum->n > SP_PARTS) return false;
    for (int i = 0; i < sum->n; i++) {
        sp_select_kind kind = sum->part[i].select.kind;
        if ((kind != SP_SELECT_ROWNNZ && kind != SP_SELECT_REST) || !is_table(&sum->part[i].format))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------ read */

/* Is the storage of a leaf what its format says? n: its positions. */
static bool leaf_is(const sp_packed *all, const sp_packed *leaf, const sp_format *f, int64_t *n)
{
    const sp_level *l = f->level;
    int64_t slots;
    *n = leaf->crd[0].rank == 1 ? leaf->crd[0].dim[0] : -1;
    return *n >= 0 && sp_format_equal(&leaf->format, f) && leaf->dtype == all->dtype &&
           leaf->pattern == all->pattern && leaf->rank == 2 && leaf->dim[0] == all->dim[0] &&
           leaf->dim[1] == all->dim[1] && sp_array_is(&leaf->pos[0], l[0].pos, 2) &&
           sp_index_get(l[0].pos, leaf->pos[0].data, 0) == 0 &&
           sp_index_get(l[0].pos, leaf->pos[0].data, 1) == *n && sp_array_is(&leaf->crd[0], l[0].crd, *n) &&
           sp_int_mul(*n, l[1].w, &slots) && sp_array_is(&leaf->crd[1], l[1].crd, slots) &&
           (all->pattern || sp_array_is(&leaf->values, all->dtype, slots));
}

/* Put a leaf's rows into the directory; false: one is there already, or they do not ascend. */
static bool enter(const sp_source *s, const sp_packed *leaf, int number, int64_t part, int64_t n)
{
    const sp_level *l = &leaf->format.level[0];
    int64_t last = -1;
    for (int64_t q = 0; q < n; q++) {
        int64_t row = sp_index_get(l->crd, leaf->crd[0].data, q);
        if (q && row == last && l->properties & SP_PROP_NONUNIQUE) continue;
        if (row <= last || row >= s->rows || s->part[part * s->rows + row] >= 0) return false;
        s->part[part * s->rows + row] = number;
        s->start[part * s->rows + row] = q;
        last = row;
    }
    return true;
}

sparta_status sp_hyb_open(sparta_ctx *cx, sp_source *s, bool *can)
{
    int64_t parts, n[SP_PARTS], all = 0;
    const sp_packed *p = s->p;
    const sp_sum *sum = buckets_of(&p->format, &parts);
    *can = p->parts == parts * sum->n && p->part;
    for (int i = 0; *can && i < p->parts; i++) {
        *can = leaf_is(p, &p->part[i], &sum->part[i % sum->n].format, &n[i]);
        if (*can) all += p->part[i].crd[1].dim[0];
    }
    if (*can && s->rows + s->cols > 1 << 16 && (s->rows + s->cols) / 16 > all) *can = false;
    if (!*can) return SPARTA_OK;
    size_t entries = (size_t)(parts * s->rows) + 1;
    s->start = sp_alloc(cx, entries * sizeof *s->start);
    SP_NEED(cx, s->start);
    s->part = sp_alloc(cx, entries * sizeof *s->part);
    SP_NEED(cx, s->part);
    memset(s->part, 0xff, entries * sizeof *s->part);
    for (int i = 0; *can && i < p->parts; i++) *can = enter(s, &p->part[i], i, i / sum->n, n[i]);
    s->n = all;
    return SPARTA_OK;
}

/* The slots of one position, added to the line; false: they are wrong. Below a row that is there the first slot is an
 * entry, whatever its value. */
static bool read_position(const sp_source *s, const sp_packed *leaf, int64_t q, sp_scratch *own, sp_line *out)
{
    const sp_level *l = &leaf->format.level[1];
    const char *value = leaf->pattern ? NULL : (const char *)leaf->values.data + (size_t)(q * l->w) * s->size;
    int64_t n = 0, last = -1;
    bool zero = l->properties & SP_PROP_PAD_ZERO;
    for (int64_t k = 0; k < l->w; k++) {
        int64_t c = sp_index_get(l->crd, leaf->crd[1].data, q * l->w + k);
        bool pads = n < k || (k && c <= last);
        if (c < 0) return false;
        if (pads && c != (zero ? 0 : last)) return false;
        for (size_t b = 0; pads && value && b < s->size; b++)
            if (value[(size_t)k * s->size + b]) return false;
        if (pads) continue;
        if (c >= s->cols || out->n + n >= s->cols) return false;
        own->col[out->n + n++] = (int32_t)c;
        last = c;
    }
    if (value) memcpy(own->value + (size_t)out->n * s->size, value, (size_t)n * s->size);
    out->n += n;
    return true;
}

bool sp_hyb_read(const sp_source *s, int64_t row, sp_scratch *own, sp_line *out)
{
    int64_t parts;
    buckets_of(&s->p->format, &parts);
    *out = (sp_line){0, own->col, s->p->pattern ? NULL : own->value};
    for (int64_t p = 0; p < parts; p++) {
        int32_t number = s->part[p * s->rows + row];
        if (number < 0) continue;
        const sp_packed *leaf = &s->p->part[number];
        const sp_level *l = &leaf->format.level[0];
        for (int64_t q = s->start[p * s->rows + row]; q < leaf->crd[0].dim[0]; q++) {
            if (sp_index_get(l->crd, leaf->crd[0].data, q) != row) break;
            if (!read_position(s, leaf, q, own, out)) return false;
        }
    }
    for (int64_t i = 1; i < out->n; i++)
        if (own->col[i - 1] >= own->col[i]) return false;
    return true;
}

/* ------------------------------------------------------------------ write */

static int64_t part_width(int64_t cols, int64_t parts)
{
    return SP_MAX(cols / parts + (cols % parts != 0), 1);
}

/* Where the entries of a line from `i` on leave their part of the columns. */
static int64_t part_end(const sp_line *line, int64_t i, int64_t width, int64_t *part)
{
    *part = line->col[i] / width;
    while (i < line->n && line->col[i] / width == *part) i++;
    return i;
}

/* The directory is job->slot: the counts. */
static bool count_hyb(void *arg, int thread, int64_t lo, int64_t hi)
{
    sp_convert_job *job = arg;
    const sp_source *s = job->from;
    int64_t parts, part;
    buckets_of(job->format, &parts);
    int64_t width = part_width(s->cols, parts);
    for (int64_t row = lo; row < hi; row++) {
        sp_line line;
        if (!sp_source_check(s, row, row + 1) || !s->read(s, row, &job->scratch[thread], &line)) return false;
        for (int64_t i = 0, end; i < line.n; i = end) {
            end = part_end(&line, i, width, &part);
            if (part < 0 || part >= parts) return false;
            job->slot[part * s->rows + row] = (int32_t)(end - i);
        }
    }
    return true;
}

/* The bucket of a row with n entries; -1: nobody takes it, or it does not fit. */
static int bucket_of(const sp_sum *sum, int64_t n)
{
    for (int i = 0; i < sum->n; i++) {
        const sp_select *by = &sum->part[i].select;
        if (by->kind == SP_SELECT_ROWNNZ && (n <= by->a || n > by->b)) continue;
        const sp_level *l = sum->part[i].format.level;
        return n <= l[1].w || l[0].properties & SP_PROP_NONUNIQUE ? i : -1;
    }
    return -1;
}

static sparta_status leaf_arrays(sp_convert_job *job, const sp_format *f, int64_t n, sp_packed *leaf)
{
    const sp_level *l = f->level;
    int64_t slots;
    *leaf = (sp_packed){.format = *f, .dtype = job->out->dtype, .pattern = job->out->pattern, .rank = 2};
    memcpy(leaf->dim, job->out->dim, sizeof leaf->dim);
    SP_TRY(sp_level_pos_fits(job->cx, &l[0], 0, n));
    SP_TRY(sp_level_product(job->cx, 1, n, l[1].w, &slots));
    SP_TRY(sp_job_array(job, l[0].pos, 2, true, &leaf->pos[0]));
    sp_job_set(&leaf->pos[0], 1, n);
    SP_TRY(sp_job_array(job, l[0].crd, n, false, &leaf->crd[0]));
    SP_TRY(sp_job_array(job, l[1].crd, slots, false, &leaf->crd[1]));
    return job->out->pattern ? SPARTA_OK : sp_job_array(job, job->out->dtype, slots, true, &leaf->values);
}

/* job->count: the first position of each row in its leaf. */
static sparta_status plan_hyb(sp_convert_job *job, bool *can)
{
    int64_t parts, n[SP_PARTS] = {0}, rows = job->from->rows;
    const sp_sum *sum = buckets_of(job->format, &parts);
    for (int64_t k = 0; k < parts * rows; k++) {
        int bucket = job->slot[k] ? bucket_of(sum, job->slot[k]) : 0;
        *can = *can && bucket >= 0;
        if (!*can) return SPARTA_OK;
        int64_t *at = &n[k / rows * sum->n + bucket], w = sum->part[bucket].format.level[1].w;
        job->count[k] = *at;
        *at += (job->slot[k] + w - 1) / w;
    }
    job->out->part = sp_alloc_array(job->cx, (size_t)(parts * sum->n), sizeof *job->out->part);
    SP_NEED(job->cx, job->out->part);
    job->out->parts = (int)parts * sum->n;
    for (int i = 0; i < job->out->parts; i++)
        SP_TRY(leaf_arrays(job, &sum->part[i % sum->n].format, n[i], &job->out->part[i]));
    return SPARTA_OK;
}

void sp_hyb_longest(const sp_convert_job *job, int64_t longest[SP_PARTS])
{
    int64_t parts, rows = job->from->rows;
    const sp_sum *sum = buckets_of(job->format, &parts);
    memset(longest, 0, SP_PARTS * sizeof *longest);
    for (int64_t k = 0; k < parts * rows; k++) {
        if (!job->slot[k]) continue;
        int bucket = bucket_of(sum, job->slot[k]); /* plan saw that there is one */
        int64_t *most = &longest[k / rows * sum->n + bucket];
        *most = SP_MAX(*most, SP_MIN(job->slot[k], sum->part[bucket].format.level[1].w));
    }
}

static void write_rows(const sp_convert_job *job, sp_packed *leaf, int64_t q, int64_t row,
                       const sp_line *line)
{
    const sp_level *l = leaf->format.level;
    bool zero = l[1].properties & SP_PROP_PAD_ZERO;
    size_t size = job->from->size;
    for (int64_t i = 0; i < line->n; i += l[1].w, q++) {
        int64_t n = SP_MIN(l[1].w, line->n - i), at = q * l[1].w;
        sp_index_set(l[0].crd, leaf->crd[0].data, q, row);
        sp_columns_put(l[1].crd, leaf->crd[1].data, at, line->col + i, n);
        for (int64_t k = n; k < l[1].w; k++)
            sp_index_set(l[1].crd, leaf->crd[1].data, at + k, zero ? 0 : line->col[i + n - 1]);
        if (line->value)
            memcpy((char *)leaf->values.data + (size_t)at * size, line->value + (size_t)i * size,
                   (size_t)n * size);
    }
}

static bool write_hyb(void *arg, int thread, int64_t lo, int64_t hi)
{
    sp_convert_job *job = arg;
    const sp_source *s = job->from;
    int64_t parts, part;
    const sp_sum *sum = buckets_of(job->format, &parts);
    int64_t width = part_width(s->cols, parts);
    for (int64_t row = lo; row < hi; row++) {
        sp_line line;
        if (!s->read(s, row, &job->scratch[thread], &line)) return false;
        for (int64_t i = 0, end; i < line.n; i = end) {
            end = part_end(&line, i, width, &part);
            if (part < 0 || part >= parts || end - i != job->slot[part * s->rows + row]) return false;
            int leaf = (int)part * sum->n + bucket_of(sum, end - i);
            sp_line some = {end - i, line.col + i,
                            job->out->pattern ? NULL : line.value + (size_t)i * s->size};
            write_rows(job, &job->out->part[leaf], job->count[part * s->rows + row], row, &some);
        }
    }
    return true;
}
const sp_writer sp_writer_hyb = {count_hyb, plan_hyb, write_hyb};

int64_t sp_hyb_directory(const sp_format *f, int64_t rows)
{
    int64_t parts;
    buckets_of(f, &parts);
    return parts * rows;
}
