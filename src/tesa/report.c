/* The full report: facts about a mask (counted once), and from them the patterns that hold.
 *
 *     tiles   blocks of 49 sizes, groups for n:m both ways                       tiles.c
 *     rows    used and full rows and columns, heads, diagonals:
 *
 *              k ->             the row at n is shifted by rows-1-n and ORed into one row of diagonals:
 *            n 1 . . .
 *              . 1 . .          . . . 1 . . 1      k - n from -(rows-1) to cols-1
 *              . . 1 .                ^     ^
 *              . 1 . 1               -2     0
 *
 * A finding says what storing the mask by that pattern takes. Blocks and heads that stand over the edge count
 * whole, as they are stored.
 */
#include "tesa/words.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ facts from rows */

typedef struct {
    uint64_t *in_col, *all_col; /* cols: union and intersection of rows */
    uint64_t *diagonal;         /* rows + cols - 1 */
} unions;

/* A whole row, whose padding is 0, into the diagonals at `to`. */
static void shift_in(const uint64_t *row, int64_t words, uint64_t *diagonal, int64_t to)
{
    int shift = (int)(to % WORD);
    uint64_t carry = 0;
    diagonal += to / WORD;
    for (int64_t j = 0; j < words; j++) {
        diagonal[j] |= row[j] << shift | carry;
        carry = shift ? row[j] >> (WORD - shift) : 0;
    }
    if (carry) diagonal[words] |= carry;
}

static void add_row(const sp_mask *m, int64_t n, const unions *u, sp_mask_facts *f)
{
    const uint64_t *row = sp_mask_row(m, n);
    uint64_t any = 0, absent = 0, last = sp_low(m->cols - (m->words - 1) * WORD);
    for (int64_t j = 0; j < m->words; j++) {
        any |= row[j];
        absent |= ~row[j] & (j == m->words - 1 ? last : UINT64_MAX);
        u->all_col[j] &= row[j];
    }
    f->used_rows += any != 0;
    f->full_rows += !absent;
    if (any) shift_in(row, m->words, u->diagonal, m->rows - 1 - n);
}

/* Used heads: groups of `size` with a used member. */
static int64_t used_heads(const uint64_t *used, int64_t count, int64_t size)
{
    int64_t heads = 0;
    for (int64_t at = size ? sp_bits_next(used, 0, count) : count; at < count;) {
        int64_t head = at / size;
        heads++;
        at = count - head * size <= size ? count : sp_bits_next(used, (head + 1) * size, count);
    }
    return heads;
}

static void count_diagonals(const uint64_t *diagonal, sp_mask_facts *f)
{
    int64_t all = f->rows + f->cols - 1;
    for (int64_t d = sp_bits_next(diagonal, 0, all); d < all; d = sp_bits_next(diagonal, d + 1, all)) {
        int64_t offset = d - (f->rows - 1);
        if (!f->diagonals++) f->first = offset;
        f->last = offset;
        f->diagonal_slots +=
            offset < 0 ? SP_MIN(f->rows + offset, f->cols) : SP_MIN(f->cols - offset, f->rows);
    }
}

static void count_rows(const sp_mask *m, const sp_report_options *o, const unions *u, sp_mask_facts *f)
{
    int64_t head = -1;
    for (int64_t n = 0; n < m->rows; n++) {
        add_row(m, n, u, f);
        if (!o->head_rows || n / o->head_rows == head ||
            sp_bits_next(sp_mask_row(m, n), 0, m->cols) == m->cols)
            continue;
        head = n / o->head_rows;
        f->head_rows++;
    }
    f->head_cols = used_heads(u->in_col, m->cols, o->head_cols);
    for (int64_t j = 0; j < m->words; j++) {
        f->used_cols += (int64_t)sp_ones(u->in_col[j]);
        f->full_cols += (int64_t)sp_ones(u->all_col[j]);
    }
    count_diagonals(u->diagonal, f);
}

static sparta_status count_facts(sparta_ctx *cx, const sp_mask *m, const sp_report_options *o,
                                 sp_mask_facts *f)
{
    int64_t diagonals;
    if (!sp_int_add(m->rows, m->cols, &diagonals))
        return sp_fail(cx, SPARTA_E_SHAPE, "report: %lldx%lld is too large", (long long)m->rows,
                       (long long)m->cols);
    sp_arena *arena = sp_arena_create(cx);
    SP_NEED(cx, arena);
    unions u = {.in_col = sp_arena_array(arena, (size_t)m->words, sizeof(uint64_t)),
                .all_col = sp_arena_array(arena, (size_t)m->words, sizeof(uint64_t)),
                .diagonal = sp_arena_array(arena, (size_t)diagonals / WORD + 1, sizeof(uint64_t))};
    sparta_status status = SPARTA_OK;
    if (!u.in_col || !u.all_col || !u.diagonal) {
        status = sp_ctx_status(cx);
    } else {
        memset(u.all_col, 0xff, (size_t)m->words * sizeof(uint64_t));
        status = sp_count_tiles(cx, m, SP_TILE_VPOPCNT, f, u.in_col);
        if (!status) count_rows(m, o, &u, f);
    }
    sp_arena_free(arena);
    f->present = f->blocks[0][0];
    return status;
}

/* ------------------------------------------------------------------ findings */

typedef struct {
    sp_mask_facts *f;
    double slack;
    size_t element;
} finder;

/* What the arrays take besides the slots: coordinates of this many bits each, positions of 4 bytes, and slots of
 * padding that belong to no element. */
typedef struct {
    int64_t coordinates, bits, positions, padding;
} index_size;

static sp_finding *add(const finder *at, sp_finding x, index_size index)
{
    sp_mask_facts *f = at->f;
    double present = (double)f->present;
    x.fill = (double)x.slots / present;
    x.exact = x.slots == f->present && !x.missed;
    bool always = x.kind == SP_FIND_BLOCK && x.n * x.m == 1;
    if (!always && (x.fill > at->slack || (double)x.missed / present > at->slack - 1)) return NULL;
    if (f->finding_count >= SP_FINDINGS) return NULL;
    x.bytes = (size_t)(x.slots + index.padding) * at->element +
              (size_t)(index.coordinates * index.bits + 7) / 8 + (size_t)index.positions * 4;
    sp_finding *to = &f->finding[f->finding_count++];
    *to = x;
    return to;
}

#define NARROW 65536 /* columns of a strip with short coordinates */

void sp_block_format(int64_t n, int64_t m, int64_t cols, char *text, size_t size)
{
    long long b = n, c = m;
    if (n * m == 1)
        snprintf(text, size, "csr");
    else if (m == 1)
        snprintf(text, size, "(n,k)->(n/%lld:dense, k:compressed, n%%%lld:dense)%s", b, b,
                 cols <= NARROW ? ", crd=u16" : "");
    else
        snprintf(text, size, "bsr(%lld,%lld)", b, c);
}

static void find_blocks(const finder *at)
{
    const sp_mask_facts *f = at->f;
    for (int h = 0; h < SP_BLOCK_SIZES; h++)
        for (int w = 0; w < SP_BLOCK_SIZES; w++) {
            int64_t n = INT64_C(1) << h, m = INT64_C(1) << w, slots;
            if (!sp_int_mul(f->blocks[h][w], n * m, &slots)) continue;
            bool narrow = m == 1 && n > 1 && f->cols <= NARROW;
            sp_finding *x =
                add(at, (sp_finding){.kind = SP_FIND_BLOCK, .n = n, .m = m, .slots = slots},
                    (index_size){f->blocks[h][w], narrow ? 16 : 32, sp_ceil_div(f->rows, n) + 1, 0});
            if (!x) continue;
            snprintf(x->name, sizeof x->name, "%dx%d", (int)n, (int)m);
            sp_block_format(n, m, f->cols, x->format, sizeof x->format);
        }
}

static void name_nm(sp_finding *x, bool along_k)
{
    int n = (int)x->n, m = (int)x->m;
    const char *width = m <= 4 ? "u2" : "u4";
    snprintf(x->name, sizeof x->name, "%d:%d along %c", n, m, along_k ? 'k' : 'n');
    if (along_k && n == 2 && m == 4)
        snprintf(x->format, sizeof x->format, "nm24");
    else if (along_k)
        snprintf(x->format, sizeof x->format, "(i,j)->(i:dense, j/%d:dense, j%%%d:structured[%d,%d]), crd=%s",
                 m, m, n, m, width);
    else
        snprintf(x->format, sizeof x->format, "(i,j)->(j:dense, i/%d:dense, i%%%d:structured[%d,%d]), crd=%s",
                 m, m, n, m, width);
}

/* For every m the n that hold; n = m would be dense. */
static void find_nm(const finder *at, bool along_k)
{
    const sp_mask_facts *f = at->f;
    for (int s = 0; s < SP_NM_SIZES; s++) {
        int m = 2 << s;
        int64_t groups = along_k ? f->rows * sp_ceil_div(f->cols, m) : f->cols * sp_ceil_div(f->rows, m);
        int64_t kept = 0;
        for (int n = 1; n < m; n++) {
            kept += f->more[along_k][s][n - 1]; /* what is in the first n slots of its group */
            sp_finding *x = add(at,
                                (sp_finding){.kind = along_k ? SP_FIND_NM_COLS : SP_FIND_NM_ROWS,
                                             .n = n,
                                             .m = m,
                                             .slots = groups * n,
                                             .missed = f->present - kept},
                                (index_size){groups * sp_ceil_div(n * (m <= 4 ? 2 : 4), 8), 8, 0,
                                             0}); /* a group begins on a byte */
            if (x) name_nm(x, along_k);
        }
    }
}

static void find_lines(const finder *at, const sp_report_options *o)
{
    const sp_mask_facts *f = at->f;
    int64_t hr = o->head_rows, hc = o->head_cols, slots;
    const struct {
        sp_find kind;
        int64_t n, m, used, each;
        const char *name, *format;
    } line[] = {{SP_FIND_ROWS, 1, 0, f->used_rows, f->cols, "rows", "(i,j)->(i:compressed, j:dense)"},
                {SP_FIND_COLS, 0, 1, f->used_cols, f->rows, "cols", "(i,j)->(j:compressed, i:dense)"},
                {SP_FIND_HEAD_ROWS, hr, 0, f->head_rows, f->cols, "heads of %lld rows",
                 "(i,j)->(i/%lld:compressed, i%%%lld:dense, j:dense)"},
                {SP_FIND_HEAD_COLS, 0, hc, f->head_cols, f->rows, "heads of %lld cols",
                 "(i,j)->(j/%lld:compressed, j%%%lld:dense, i:dense)"}};
    for (size_t i = 0; i < SP_COUNT(line); i++) {
        long long size = line[i].n + line[i].m;
        if (!size || !sp_int_mul(line[i].used, line[i].each, &slots) || !sp_int_mul(slots, size, &slots))
            continue;
        sp_finding *x =
            add(at, (sp_finding){.kind = line[i].kind, .n = line[i].n, .m = line[i].m, .slots = slots},
                (index_size){line[i].used, 32, 2, 0});
        if (!x) continue;
        snprintf(x->name, sizeof x->name, line[i].name, size);
        snprintf(x->format, sizeof x->format, line[i].format, size, size);
    }
}

/* Elements in the diagonals from k - n = first to last. */
static int64_t band_slots(int64_t rows, int64_t cols, int64_t first, int64_t last)
{
    int64_t slots = 0;
    for (int64_t d = first; d <= last; d++) slots += d < 0 ? SP_MIN(rows + d, cols) : SP_MIN(cols - d, rows);
    return slots;
}

/* The format gives every used diagonal all rows. */
static void find_diagonals(const finder *at)
{
    const sp_mask_facts *f = at->f;
    int64_t stored, band = band_slots(f->rows, f->cols, f->first, f->last);
    if (!sp_int_mul(f->diagonals, f->rows, &stored)) return;
    const sp_finding all = {.kind = SP_FIND_DIAGONALS, .n = f->diagonals, .slots = f->diagonal_slots},
                     range = {.kind = SP_FIND_BAND, .n = f->first, .m = f->last, .slots = band};
    sp_finding *x = add(at, all, (index_size){f->diagonals, 32, 2, stored - all.slots});
    if (x) snprintf(x->name, sizeof x->name, "%lld diagonals", (long long)x->n);
    if (x) snprintf(x->format, sizeof x->format, "(i,j)->(j-i:compressed, i:range)");
    x = add(at, range, (index_size){f->diagonals, 32, 2, stored - range.slots});
    if (x) snprintf(x->name, sizeof x->name, "band %lld..%lld", (long long)x->n, (long long)x->m);
    if (x) snprintf(x->format, sizeof x->format, "(i,j)->(j-i:compressed, i:range)");
}

/* A block of n x n is stored whole when that takes no more than its elements, and is full enough to hold. */
static int64_t least_in_block(int64_t n, double slack, size_t element)
{
    int64_t area = n * n, price = (int64_t)element * area + 4, each = (int64_t)element + 4;
    int64_t holds = (int64_t)ceil((double)area / SP_MIN(slack, (double)area));
    while (holds < area && (double)holds * slack < (double)area) holds++;
    return SP_MAX(sp_ceil_div(price, each), holds);
}

static sparta_status count_mixtures(sparta_ctx *cx, const sp_mask *m, const finder *at)
{
    int64_t least[SP_MIXTURE_SIZES];
    for (int s = 0; s < SP_MIXTURE_SIZES; s++) least[s] = least_in_block(8 << s, at->slack, at->element);
    return sp_count_dense(cx, m, least, at->f->dense_blocks, at->f->in_dense);
}

/* The best size, when blocks and rest are both there and less than csr alone. */
static void find_mixture(const finder *at)
{
    const sp_mask_facts *f = at->f;
    int64_t csr = f->present * (int64_t)(at->element + 4) + 4 * (f->rows + 1), fewest = csr, best = -1;
    for (int s = 0; s < SP_MIXTURE_SIZES; s++) {
        int64_t n = 8 << s, rest = f->present - f->in_dense[s], blocks = f->dense_blocks[s];
        int64_t bytes = blocks * (n * n * (int64_t)at->element + 4) + 4 * (sp_ceil_div(f->rows, n) + 1) +
                        rest * (int64_t)(at->element + 4) + 4 * (f->rows + 1);
        if (blocks && rest && bytes < fewest) fewest = bytes, best = s;
    }
    if (best < 0) return;
    int64_t n = 8 << best, rest = f->present - f->in_dense[best], blocks = f->dense_blocks[best];
    sp_finding *x =
        add(at, (sp_finding){.kind = SP_FIND_MIXTURE, .n = n, .m = n, .slots = blocks * n * n + rest},
            (index_size){blocks + rest, 32, sp_ceil_div(f->rows, n) + 1 + f->rows + 1, 0});
    if (!x) return;
    double density =
        (double)least_in_block(n, at->slack, at->element) / (double)(n * n); /* exact in decimals */
    snprintf(x->name, sizeof x->name, "%dx%d and rest", (int)n, (int)n);
    snprintf(x->format, sizeof x->format, "sum{blockdensity>=%.12g -> bsr(%d,%d); rest -> csr}", density,
             (int)n, (int)n);
}

/* Fewest bytes first; then the coarser block, then the order they were found in. */
static int by_bytes(const void *left, const void *right)
{
    const sp_finding *a = left, *b = right;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->n != b->n) return a->n > b->n ? -1 : 1;
    return a->m > b->m ? -1 : a->m < b->m;
}

sparta_status sp_mask_report(sparta_ctx *cx, const sp_mask *m, const sp_report_options *options,
                             sp_mask_facts *out)
{
    if (!(options->slack >= 1) || options->head_rows < 0 || options->head_cols < 0)
        return sp_fail(cx, SPARTA_E_USAGE,
                       "report: slack is %g, heads are %lld rows and %lld columns; slack must be at least 1 "
                       "(exact), heads not negative",
                       options->slack, (long long)options->head_rows, (long long)options->head_cols);
    sp_mask_facts *f = sp_zalloc(cx, sizeof *f); /* large for a stack, and outputs are written last */
    SP_NEED(cx, f);
    f->rows = m->rows, f->cols = m->cols;
    sparta_status status = m->rows && m->words ? count_facts(cx, m, options, f) : SPARTA_OK;
    if (!status && f->present) {
        finder at = {f, options->slack, options->element ? options->element : 4};
        find_blocks(&at);
        find_nm(&at, true);
        find_nm(&at, false);
        find_lines(&at, options);
        find_diagonals(&at);
        status = count_mixtures(cx, m, &at);
        if (!status) find_mixture(&at);
        qsort(f->finding, (size_t)f->finding_count, sizeof f->finding[0], by_bytes);
    }
    if (!status) *out = *f;
    sp_free(cx, f);
    return status;
}
