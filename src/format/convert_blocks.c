/* Writers whose entries meet in two dimensions: blocks (bsr) and diagonals (dia).
 *
 *     rows of a block    marks        1 0 1 1        a byte for each block of the row of blocks
 *     . a . . c d . .                 |   | |
 *     . b . . . . e .    slots        0   1 2        places in ascending order: crd
 *                                                    then every entry goes to its slot
 */
#include "format/rows.h"
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

static int64_t width_of(const sparta_job *job)
{
    return (job->from->cols + job->layout.b - 1) / job->layout.b;
}

/* Entries of `a` rows: those of a flat source lie together. */
static bool lines_of(const sparta_job *job, int thread, int64_t *row, int64_t end, sparta_line *line)
{
    const sparta_rows *s = job->from;
    if (!s->flat) return s->read(s, (*row)++, &job->scratch[thread], line);
    line->n = s->start[end] - s->start[*row];
    line->col = (const int32_t *)s->crd + s->start[*row];
    *row = end;
    return true;
}

/* Many blocks in a row: a byte for each. */
static bool mark(const sparta_job *job, const sparta_line *line, sparta_scratch *own)
{
    divider d = divider_of(job->layout.b);
    const int32_t *col = line->col;
    int64_t i = 0, cols = job->from->cols, n = line->n;
    uint8_t *restrict marks = own->marks;
    if (d.shift >= 0)
        for (; i < n && sparta_line_in(col[i], cols); i++) marks[(uint32_t)col[i] >> d.shift] = 1;
    else
        for (; i < n && sparta_line_in(col[i], cols); i++) marks[(uint32_t)col[i] / (uint32_t)d.b] = 1;
    return i == n;
}

/* Few blocks in a wide row: a bit for each, and a bit for each word that has one. */
static bool mark_few(const sparta_job *job, const sparta_line *line, sparta_scratch *own)
{
    divider d = divider_of(job->layout.b);
    for (int64_t i = 0; i < line->n; i++) {
        if (!sparta_line_in(line->col[i], job->from->cols)) return false;
        uint32_t k = block_of(d, line->col[i]);
        own->bits[k / 64] |= UINT64_C(1) << k % 64;
        own->words[k / 4096] |= UINT64_C(1) << k / 64 % 64;
    }
    return true;
}

/* The marks that are set, as a list, and cleared. The product collects the low bits of eight bytes in the top one. */
static int64_t sweep(sparta_scratch *own, int64_t width)
{
    int64_t n = 0;
    for (int64_t k = 0; k < width; k += 64) { /* there is room for whole words */
        uint64_t set = 0;
        for (int b = 0; b < 8; b++) {
            uint64_t eight;
            memcpy(&eight, own->marks + k + 8 * b, 8);
            set |= (eight * UINT64_C(0x0102040810204080) >> 56) << (8 * b);
        }
        for (; set; set &= set - 1) own->listed[n++] = (int32_t)(k + __builtin_ctzll(set));
    }
    memset(own->marks, 0, (size_t)width);
    return n;
}

/* Eight counts of a byte in one word, for as long as they fit. */
static int64_t count_marks(sparta_scratch *own, int64_t width)
{
    int64_t n = 0;
    for (int64_t k = 0; k < width;) {
        uint64_t sum = 0, eight, low = UINT64_C(0x00ff00ff00ff00ff);
        for (int64_t end = SPARTA_MIN(width, k + 8 * 255); k < end; k += 8) {
            memcpy(&eight, own->marks + k, 8);
            sum += eight;
        }
        n += (int64_t)(((sum & low) + (sum >> 8 & low)) * UINT64_C(0x0001000100010001) >> 48);
    }
    memset(own->marks, 0, (size_t)width);
    return n;
}

static int64_t sweep_few(sparta_scratch *own, int64_t width)
{
    int64_t n = 0;
    for (int64_t v = 0; v <= width / 4096; v++) {
        for (uint64_t word = own->words[v]; word; word &= word - 1) {
            int64_t w = v * 64 + __builtin_ctzll(word);
            for (uint64_t bit = own->bits[w]; bit; bit &= bit - 1)
                own->listed[n++] = (int32_t)(w * 64 + __builtin_ctzll(bit));
            own->bits[w] = 0;
        }
        own->words[v] = 0;
    }
    return n;
}

/* How many of the bits were set, and no longer are. */
static int64_t count_few(const sparta_job *job, const sparta_line *line, sparta_scratch *own)
{
    divider d = divider_of(job->layout.b);
    int64_t n = 0;
    for (int64_t i = 0; i < line->n; i++) {
        uint32_t k = sparta_line_in(line->col[i], job->from->cols) ? block_of(d, line->col[i]) : 0;
        n += own->bits[k / 64] >> k % 64 & 1;
        own->bits[k / 64] &= ~(UINT64_C(1) << k % 64);
        own->words[k / 4096] = 0;
    }
    return n;
}

/* The blocks of one row of blocks, ascending, in scratch->listed, or only their number; -1: give up. */
static int64_t blocks_of(const sparta_job *job, int thread, int64_t unit, bool only_count)
{
    const sparta_rows *s = job->from;
    sparta_scratch *own = &job->scratch[thread];
    int64_t end = SPARTA_MIN(s->rows, (unit + 1) * job->layout.a), row = unit * job->layout.a,
            width = width_of(job);
    bool few = s->flat && s->start[end] - s->start[row] < width / 16;
    while (row < end) {
        sparta_line line;
        if (!lines_of(job, thread, &row, end, &line)) return -1;
        if (!(few ? mark_few(job, &line, own) : mark(job, &line, own))) return -1;
        if (few && only_count) return count_few(job, &line, own);
    }
    return only_count ? count_marks(own, width) : few ? sweep_few(own, width) : sweep(own, width);
}

static bool count_bsr(void *arg, int thread, int64_t lo, int64_t hi)
{
    sparta_job *job = arg;
    int64_t a = job->layout.a, rows = job->from->rows, checked = lo;
    for (int64_t unit = lo; unit < hi; unit++) {
        if (unit == checked) {
            int64_t end = sparta_rows_some(job->from, unit * a, SPARTA_MIN(rows, hi * a));
            checked = SPARTA_MIN(hi, (end + a - 1) / a);
            if (!sparta_rows_check(job->from, unit * a, SPARTA_MIN(rows, checked * a))) return false;
        }
        job->count[unit] = blocks_of(job, thread, unit, true);
        if (job->count[unit] < 0) return false;
    }
    return true;
}

static sparta_status plan_bsr(sparta_job *job, bool *can)
{
    const sparta_level *l = &job->format->level[1];
    int64_t n = sparta_job_scan(job), slots;
    (void)can;
    SPARTA_TRY(sparta_level_pos_fits(job->cx, l, 1, n));
    SPARTA_TRY(sparta_assembly_product(job->cx, 2, n, job->layout.a * job->layout.b, &slots));
    SPARTA_TRY(sparta_job_array(job, l->pos, job->units + 1, false, &job->out->pos[1]));
    for (int64_t u = 0; u <= job->units; u++) sparta_job_set(&job->out->pos[1], u, job->count[u]);
    SPARTA_TRY(sparta_job_array(job, l->crd, n, false, &job->out->crd[1]));
    return sparta_job_array(job, job->out->dtype, slots, true, &job->out->values);
}

/* Entries of a line to their places in the blocks, of which `row` is the one row. A block that has no place among the n
 * was not there when they were marked. */
#define PLACE(T)                                                                                             \
    static inline __attribute__((always_inline)) bool place_in_##T(                                          \
        const sparta_line *line, int64_t cols, divider d, int64_t each, int64_t sb, const int32_t *slot,     \
        uint32_t n, T *restrict row)                                                                         \
    {                                                                                                        \
        const T *value = (const T *)line->value;                                                             \
        const int32_t *col = line->col;                                                                      \
        for (int64_t i = 0; i < line->n; i++) {                                                              \
            if (!sparta_line_in(col[i], cols)) return false;                                                 \
            uint32_t k = block_of(d, col[i]), at = (uint32_t)slot[k];                                        \
            int64_t y = col[i] - (int64_t)k * d.b;                                                           \
            if (at >= n) return false;                                                                       \
            row[(int64_t)at * each + y * sb] = value ? value[i] : (T)1;                                      \
        }                                                                                                    \
        return true;                                                                                         \
    }                                                                                                        \
    static bool place_##T(const sparta_job *job, const sparta_line *line, const int32_t *slot, uint32_t n,   \
                          T *row)                                                                            \
    {                                                                                                        \
        const sparta_rows_layout *l = &job->layout;                                                          \
        divider d = divider_of(l->b);                                                                        \
        int64_t each = l->a * l->b, cols = job->from->cols;                                                  \
        if (d.shift < 0 || l->sb != 1 || !line->value)                                                       \
            return place_in_##T(line, cols, d, each, l->sb, slot, n, row);                                   \
        d.b = INT64_C(1) << d.shift;                                                                         \
        return place_in_##T(line, cols, d, each, 1, slot, n, row);                                           \
    }
PLACE(uint8_t)
PLACE(uint16_t)
PLACE(uint32_t)
PLACE(uint64_t)

static bool place(const sparta_job *job, const sparta_line *line, const int32_t *slot, int64_t n, void *row)
{
    switch (job->from->size) {
    case 1: return place_uint8_t(job, line, slot, (uint32_t)n, row);
    case 2: return place_uint16_t(job, line, slot, (uint32_t)n, row);
    case 4: return place_uint32_t(job, line, slot, (uint32_t)n, row);
    default: return place_uint64_t(job, line, slot, (uint32_t)n, row);
    }
}

/* Blocks get their places, which are crd; false: not as many as were counted. */
static bool number(sparta_job *job, int thread, int64_t unit)
{
    const sparta_level *l = &job->format->level[1];
    sparta_scratch *own = &job->scratch[thread];
    int64_t n = blocks_of(job, thread, unit, false), first = job->count[unit];
    if (n != job->count[unit + 1] - first) return false;
    sparta_columns_put(l->crd, job->out->crd[1].data, first, own->listed, n);
    for (int64_t i = 0; i < n; i++) own->slot[own->listed[i]] = (int32_t)i;
    return true;
}

static bool fill_bsr(void *arg, int thread, int64_t lo, int64_t hi)
{
    sparta_job *job = arg;
    const sparta_rows_layout *l = &job->layout;
    sparta_scratch *own = &job->scratch[thread];
    for (int64_t unit = lo; unit < hi; unit++) {
        int64_t end = SPARTA_MIN(job->from->rows, (unit + 1) * l->a),
                n = job->count[unit + 1] - job->count[unit];
        char *blocks =
            (char *)job->out->values.data + (size_t)(job->count[unit] * l->a * l->b) * job->from->size;
        if (!number(job, thread, unit)) return false;
        for (int64_t row = unit * l->a; n && row < end; row++) {
            sparta_line line;
            if (!job->from->read(job->from, row, own, &line)) return false;
            if (job->ones) line.value = NULL;
            if (!place(job, &line, own->slot, n,
                       blocks + (size_t)((row - unit * l->a) * l->sa) * job->from->size))
                return false;
        }
    }
    return true;
}
const sparta_writer sparta_writer_bsr = {count_bsr, plan_bsr, fill_bsr};

/* ------------------------------------------------------------------ dia */

/* slot[j - i + rows - 1] is 0 where a diagonal has an entry; every thread writes the same. */
static bool count_dia(void *arg, int thread, int64_t lo, int64_t hi)
{
    sparta_job *job = arg;
    const sparta_rows *s = job->from;
    for (int64_t row = lo; row < hi; row++) {
        sparta_line line;
        if (!sparta_rows_check(s, row, row + 1) || !s->read(s, row, &job->scratch[thread], &line))
            return false;
        for (int64_t i = 0; i < line.n; i++) {
            if (!sparta_line_in(line.col[i], s->cols)) return false;
            __atomic_store_n(&job->slot[line.col[i] - row + s->rows - 1], 0, __ATOMIC_RELAXED);
        }
    }
    return true;
}

static sparta_status plan_dia(sparta_job *job, bool *can)
{
    const sparta_level *l = &job->format->level[0];
    int64_t n = 0, slots, last = job->from->rows + job->from->cols - 1;
    (void)can;
    for (int64_t d = 0; d < last; d++)
        if (job->slot[d] >= 0) job->slot[d] = (int32_t)n++;
    SPARTA_TRY(sparta_level_pos_fits(job->cx, l, 0, n));
    SPARTA_TRY(sparta_assembly_product(job->cx, 1, n, job->from->rows, &slots));
    SPARTA_TRY(sparta_job_array(job, l->pos, 2, true, &job->out->pos[0]));
    sparta_job_set(&job->out->pos[0], 1, n);
    SPARTA_TRY(sparta_job_array(job, l->crd, n, false, &job->out->crd[0]));
    for (int64_t d = 0; d < last; d++)
        if (job->slot[d] >= 0) sparta_job_set(&job->out->crd[0], job->slot[d], d - job->from->rows + 1);
    return sparta_job_array(job, job->out->dtype, slots, true, &job->out->values);
}

static bool fill_dia(void *arg, int thread, int64_t lo, int64_t hi)
{
    sparta_job *job = arg;
    const sparta_rows *s = job->from;
    for (int64_t row = lo; row < hi; row++) {
        sparta_line line;
        if (!s->read(s, row, &job->scratch[thread], &line)) return false;
        for (int64_t i = 0; i < line.n; i++) {
            if (!sparta_line_in(line.col[i], s->cols)) return false;
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
const sparta_writer sparta_writer_dia = {count_dia, plan_dia, fill_dia};
