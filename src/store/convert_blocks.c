/* Writers whose entries meet in two dimensions: blocks (bsr) and diagonals (dia).
 *
 *     rows of a block    marks        1 0 1 1        a byte for each block of the row of blocks
 *     . a . . c d . .                 |   | |
 *     . b . . . . e .    slots        0   1 2        places in ascending order: crd
 *                                                    then every entry goes to its slot
 *
 * A level that is nonordered has its blocks in the order in which they first come, row after row: no marks, an entry
 * whose block has no slot yet opens the next.
 */
#include "store/convert.h"
#include <string.h>

/* ------------------------------------------------------------------ bsr: which blocks there are */

/* Division by the width of a block: a shift, where it is a power of two. */
typedef struct {
    int64_t b;
    int shift; /* -1: divide */
} divider;

static divider divider_of(int64_t b)
{
    return (divider){b, b & (b - 1) ? -1 : __builtin_ctzll((uint64_t)b)};
}

static inline uint32_t block_of(divider d, int32_t c)
{
    return d.shift >= 0 ? (uint32_t)c >> d.shift : (uint32_t)c / (uint32_t)d.b;
}

static int64_t width_of(const sp_convert_job *job)
{
    return (job->from->cols + job->storage.b - 1) / job->storage.b;
}

/* Entries of `a` rows: those of a flat source lie together. */
static bool lines_of(const sp_convert_job *job, int thread, int64_t *row, int64_t end, sp_line *line)
{
    const sp_source *s = job->from;
    if (!s->flat) return s->read(s, (*row)++, &job->scratch[thread], line);
    line->n = s->start[end] - s->start[*row];
    line->col = (const int32_t *)s->crd + s->start[*row];
    *row = end;
    return true;
}

/* Entries of one row. */
static inline bool line_of(const sp_convert_job *job, int thread, int64_t row, sp_line *line)
{
    const sp_source *s = job->from;
    if (!s->flat) return s->read(s, row, &job->scratch[thread], line);
    line->n = s->start[row + 1] - s->start[row];
    line->col = (const int32_t *)s->crd + s->start[row];
    line->value = s->values ? s->values + (size_t)s->start[row] * s->size : NULL;
    return true;
}

/* Many blocks in a row: a byte for each. */
static bool mark(const sp_convert_job *job, const sp_line *line, sp_scratch *own)
{
    divider d = divider_of(job->storage.b);
    const int32_t *col = line->col;
    int64_t i = 0, cols = job->from->cols, n = line->n;
    uint8_t *restrict marks = own->marks;
    if (d.shift >= 0)
        for (; i < n && sp_line_in(col[i], cols); i++) marks[(uint32_t)col[i] >> d.shift] = 1;
    else
        for (; i < n && sp_line_in(col[i], cols); i++) marks[(uint32_t)col[i] / (uint32_t)d.b] = 1;
    return i == n;
}

/* Few blocks in a wide row: a bit for each, and a bit for each word that has one. */
static bool mark_few(const sp_convert_job *job, const sp_line *line, sp_scratch *own)
{
    divider d = divider_of(job->storage.b);
    const int64_t cols = job->from->cols;
    uint64_t *restrict bits = own->bits, *restrict words = own->words;
    for (int64_t i = 0; i < line->n; i++) {
        const int32_t c = line->col[i];
        if (!sp_line_in(c, cols)) return false;
        uint32_t k = block_of(d, c);
        bits[k / 64] |= UINT64_C(1) << k % 64;
        words[k / 4096] |= UINT64_C(1) << k / 64 % 64;
    }
    return true;
}

/* Their number only: each remembers the last row of blocks that had it, as a number below 0: a slot of the writing is none. */
static int64_t count_few(const sp_convert_job *job, const sp_line *line, int64_t unit, int32_t *restrict last)
{
    divider d = divider_of(job->storage.b);
    const int64_t cols = job->from->cols;
    const int32_t mine = -(int32_t)unit - 1;
    int64_t n = 0;
    for (int64_t i = 0; i < line->n; i++) {
        const int32_t c = line->col[i];
        if (!sp_line_in(c, cols)) return -1;
        uint32_t k = block_of(d, c);
        n += last[k] != mine;
        last[k] = mine;
    }
    return n;
}

/* Block k is the next of its row. */
static inline int64_t list(sp_scratch *own, int64_t n, int64_t k)
{
    own->listed[n] = (int32_t)k;
    own->slot[k] = (int32_t)n;
    return n + 1;
}

/* The marks that are set, as a list with places, and cleared. The product collects the low bits of eight bytes in the top one. */
static int64_t sweep(sp_scratch *own, int64_t width)
{
    int64_t n = 0;
    for (int64_t k = 0; k < width; k += 64) { /* there is room for whole words */
        uint64_t set = 0;
        for (int b = 0; b < 8; b++) {
            uint64_t eight;
            memcpy(&eight, own->marks + k + 8 * b, 8);
            set |= (eight * UINT64_C(0x0102040810204080) >> 56) << (8 * b);
        }
        for (; set; set &= set - 1) n = list(own, n, k + __builtin_ctzll(set));
    }
    memset(own->marks, 0, (size_t)width);
    return n;
}

/* Eight counts of a byte in one word, for as long as they fit. */
static int64_t count_marks(sp_scratch *own, int64_t width)
{
    int64_t n = 0;
    for (int64_t k = 0; k < width;) {
        uint64_t sum = 0, eight, low = UINT64_C(0x00ff00ff00ff00ff);
        for (int64_t end = SP_MIN(width, k + 8 * 255); k < end; k += 8) {
            memcpy(&eight, own->marks + k, 8);
            sum += eight;
        }
        n += (int64_t)(((sum & low) + (sum >> 8 & low)) * UINT64_C(0x0001000100010001) >> 48);
    }
    memset(own->marks, 0, (size_t)width);
    return n;
}

static int64_t sweep_few(sp_scratch *own, int64_t width)
{
    int64_t n = 0;
    for (int64_t v = 0; v <= width / 4096; v++) {
        for (uint64_t word = own->words[v]; word; word &= word - 1) {
            int64_t w = v * 64 + __builtin_ctzll(word);
            for (uint64_t bit = own->bits[w]; bit; bit &= bit - 1)
                n = list(own, n, w * 64 + __builtin_ctzll(bit));
            own->bits[w] = 0;
        }
        own->words[v] = 0;
    }
    return n;
}

/* The blocks of one row of blocks, ascending, in scratch->listed with scratch->slot, or only their number; -1: give up. */
static int64_t blocks_of(const sp_convert_job *job, int thread, int64_t unit, bool only_count)
{
    const sp_source *s = job->from;
    sp_scratch *own = &job->scratch[thread];
    int64_t end = SP_MIN(s->rows, (unit + 1) * job->storage.a), row = unit * job->storage.a,
            width = width_of(job);
    bool few = s->flat && s->start[end] - s->start[row] < width / 16;
    while (row < end) {
        sp_line line;
        if (!lines_of(job, thread, &row, end, &line)) return -1;
        if (few && only_count) return count_few(job, &line, unit, own->slot);
        if (!(few ? mark_few(job, &line, own) : mark(job, &line, own))) return -1;
    }
    return only_count ? count_marks(own, width) : few ? sweep_few(own, width) : sweep(own, width);
}

static bool count_bsr(void *arg, int thread, int64_t lo, int64_t hi)
{
    sp_convert_job *job = arg;
    int64_t a = job->storage.a, rows = job->from->rows, checked = lo;
    for (int64_t unit = lo; unit < hi; unit++) {
        if (unit == checked) {
            int64_t end = sp_source_some(job->from, unit * a, SP_MIN(rows, hi * a));
            checked = SP_MIN(hi, (end + a - 1) / a);
            if (!sp_source_check(job->from, unit * a, SP_MIN(rows, checked * a))) return false;
        }
        job->count[unit] = blocks_of(job, thread, unit, true);
        if (job->count[unit] < 0) return false;
    }
    return true;
}

static sparta_status plan_bsr(sp_convert_job *job, bool *can)
{
    const sp_level *l = &job->format->level[1];
    int64_t n = sp_job_scan(job), slots;
    (void)can;
    if (n >= INT32_MAX)
        job->storage.unordered = false; /* places of all blocks would not fit into the slots */
    SP_TRY(sp_level_pos_fits(job->cx, l, 1, n));
    SP_TRY(sp_level_product(job->cx, 2, n, job->storage.a * job->storage.b, &slots));
    SP_TRY(sp_job_array(job, l->pos, job->units + 1, false, &job->out->pos[1]));
    for (int64_t u = 0; u <= job->units; u++) sp_job_set(&job->out->pos[1], u, job->count[u]);
    SP_TRY(sp_job_array(job, l->crd, n, false, &job->out->crd[1]));
    return sp_job_array(job, job->out->dtype, slots, true, &job->out->values);
}

/* The blocks of one row of blocks that is written. */
typedef struct {
    int32_t first;   /* blocks of all rows before it */
    int32_t n, most; /* blocks that are open, and that were counted */
    int32_t *slot, *listed;
} opening;

/* Entries of a line to their places in the blocks, of which `row` is the one row.
 * put: a block that has no slot among those counted was not there when they were marked.
 * come: slot is 1 + the place among the blocks of all rows. One that is not above `first` is of an earlier row, which a
 * thread takes earlier, or left from the count: the entry is the first of its block and opens it. */
#define PLACE(T)                                                                                             \
    static inline __attribute__((always_inline)) bool put_##T(                                               \
        const sp_line *line, int64_t cols, divider d, int64_t each, int64_t sb, opening *o, T *restrict row) \
    {                                                                                                        \
        const T *value = (const T *)line->value;                                                             \
        const int32_t *col = line->col, *slot = o->slot;                                                     \
        const uint32_t n = (uint32_t)o->most;                                                                \
        for (int64_t i = 0; i < line->n; i++) {                                                              \
            if (!sp_line_in(col[i], cols)) return false;                                                     \
            uint32_t k = block_of(d, col[i]), at = (uint32_t)slot[k];                                        \
            int64_t y = col[i] - (int64_t)k * d.b;                                                           \
            if (at >= n) return false;                                                                       \
            row[(int64_t)at * each + y * sb] = value ? value[i] : (T)1;                                      \
        }                                                                                                    \
        return true;                                                                                         \
    }                                                                                                        \
    static inline __attribute__((always_inline)) bool come_##T(                                              \
        const sp_line *line, int64_t cols, divider d, int64_t each, int64_t sb, opening *o, T *restrict row) \
    {                                                                                                        \
        const T *value = (const T *)line->value;                                                             \
        const int32_t *col = line->col, first = o->first, most = o->most;                                    \
        int32_t n = o->n, *restrict slot = o->slot, *restrict listed = o->listed;                            \
        for (int64_t i = 0; i < line->n; i++) {                                                              \
            if (!sp_line_in(col[i], cols)) return false;                                                     \
            uint32_t k = block_of(d, col[i]);                                                                \
            int64_t y = col[i] - (int64_t)k * d.b;                                                           \
            if (slot[k] <= first) {                                                                          \
                if (n == most) return false;                                                                 \
                listed[n++] = (int32_t)k;                                                                    \
                slot[k] = first + n;                                                                         \
            }                                                                                                \
            row[(int64_t)(slot[k] - first - 1) * each + y * sb] = value ? value[i] : (T)1;                   \
        }                                                                                                    \
        o->n = n;                                                                                            \
        return true;                                                                                         \
    }                                                                                                        \
    static bool place_##T(const sp_convert_job *job, int thread, int64_t unit, opening *o, T *blocks)        \
    {                                                                                                        \
        const sp_storage *l = &job->storage;                                                                 \
        divider d = divider_of(l->b), two = {d.shift >= 0 ? INT64_C(1) << d.shift : 0, d.shift};             \
        int64_t each = l->a * l->b, cols = job->from->cols, row = unit * l->a;                               \
        const bool plain = d.shift >= 0 && l->sb == 1 && !job->ones;                                         \
        for (int64_t end = SP_MIN(job->from->rows, row + l->a); row < end; row++, blocks += l->sa) {         \
            sp_line line;                                                                                    \
            if (!line_of(job, thread, row, &line)) return false;                                             \
            if (job->ones) line.value = NULL;                                                                \
            bool fine;                                                                                       \
            if (l->unordered)                                                                                \
                fine = plain ? come_##T(&line, cols, two, each, 1, o, blocks)                                \
                             : come_##T(&line, cols, d, each, l->sb, o, blocks);                             \
            else                                                                                             \
                fine = plain ? put_##T(&line, cols, two, each, 1, o, blocks)                                 \
                             : put_##T(&line, cols, d, each, l->sb, o, blocks);                              \
            if (!fine) return false;                                                                         \
        }                                                                                                    \
        return true;                                                                                         \
    }
SP_EACH_SIZE(PLACE)

/* One row of blocks; false: not as many as were counted. Blocks in order have their slots first. */
static bool write_unit(sp_convert_job *job, int thread, int64_t unit)
{
    const sp_level *l = &job->format->level[1];
    const size_t bytes = (size_t)(job->storage.a * job->storage.b) * job->from->size;
    const int64_t first = job->count[unit], n = job->count[unit + 1] - first;
    sp_scratch *own = &job->scratch[thread];
    if (!n) return true;
    opening o = {(int32_t)first, 0, (int32_t)n, own->slot, own->listed};
    if (!job->storage.unordered) o.n = (int32_t)blocks_of(job, thread, unit, false);
    if (!job->storage.unordered && o.n != n) return false;
    void *blocks = (char *)job->out->values.data + (size_t)first * bytes;
    if (!SP_BY_SIZE(job->from->size, place, job, thread, unit, &o, blocks)) return false;
    sp_columns_put(l->crd, job->out->crd[1].data, first, own->listed, o.n);
    return o.n == n;
}

static bool write_bsr(void *arg, int thread, int64_t lo, int64_t hi)
{
    for (int64_t unit = lo; unit < hi; unit++)
        if (!write_unit(arg, thread, unit)) return false;
    return true;
}
const sp_writer sp_writer_bsr = {count_bsr, plan_bsr, write_bsr};

/* ------------------------------------------------------------------ dia */

/* slot[j - i + rows - 1] is 0 where a diagonal has an entry; every thread writes the same. */
static bool count_dia(void *arg, int thread, int64_t lo, int64_t hi)
{
    sp_convert_job *job = arg;
    const sp_source *s = job->from;
    for (int64_t row = lo; row < hi; row++) {
        sp_line line;
        if (!sp_source_check(s, row, row + 1) || !s->read(s, row, &job->scratch[thread], &line)) return false;
        for (int64_t i = 0; i < line.n; i++) {
            if (!sp_line_in(line.col[i], s->cols)) return false;
            __atomic_store_n(&job->slot[line.col[i] - row + s->rows - 1], 0, __ATOMIC_RELAXED);
        }
    }
    return true;
}

static sparta_status plan_dia(sp_convert_job *job, bool *can)
{
    const sp_level *l = &job->format->level[0];
    int64_t n = 0, slots, last = job->from->rows + job->from->cols - 1;
    (void)can;
    for (int64_t d = 0; d < last; d++)
        if (job->slot[d] >= 0) job->slot[d] = (int32_t)n++;
    SP_TRY(sp_level_pos_fits(job->cx, l, 0, n));
    SP_TRY(sp_level_product(job->cx, 1, n, job->from->rows, &slots));
    SP_TRY(sp_job_array(job, l->pos, 2, true, &job->out->pos[0]));
    sp_job_set(&job->out->pos[0], 1, n);
    SP_TRY(sp_job_array(job, l->crd, n, false, &job->out->crd[0]));
    for (int64_t d = 0; d < last; d++)
        if (job->slot[d] >= 0) sp_job_set(&job->out->crd[0], job->slot[d], d - job->from->rows + 1);
    return sp_job_array(job, job->out->dtype, slots, true, &job->out->values);
}

static bool write_dia(void *arg, int thread, int64_t lo, int64_t hi)
{
    sp_convert_job *job = arg;
    const sp_source *s = job->from;
    for (int64_t row = lo; row < hi; row++) {
        sp_line line;
        if (!s->read(s, row, &job->scratch[thread], &line)) return false;
        for (int64_t i = 0; i < line.n; i++) {
            if (!sp_line_in(line.col[i], s->cols)) return false;
            int64_t k = job->slot[line.col[i] - row + s->rows - 1];
            if (k < 0) return false;
            char *to = (char *)job->out->values.data + (size_t)(k * s->rows + row) * s->size;
            if (job->ones)
                *to = 1;
            else
                memcpy(to, line.value + (size_t)i * s->size, s->size);
        }
    }
    return true;
}
const sp_writer sp_writer_dia = {count_dia, plan_dia, write_dia};
