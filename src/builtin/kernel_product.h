/* c = a b, f32, in tiles that stay in registers: included once for each target.
 *
 *              b, a panel of 2 vectors,        for each k: one row of the panel, and one number of every row of a,
 *              at most DEPTH rows              which is multiplied with both vectors
 *                 [ k ][ k ]
 *     a  k . . .  [ * ][ * ]  ROWS rows of c   ROWS x 2 sums: with the panel's two vectors and one number they fill the registers
 *        k . . .  [ * ][ * ]
 *
 * A panel is packed, so that its rows follow each other, since all rows of a need it; few rows read b where it is. Numbers of a are read
 * where they are, whatever its strides. No product with zero is skipped: 0 x Inf is NaN.
 */
#include "builtin/quick.h"
#include <string.h>

#if defined(__AVX512F__)
enum { LANES = 16, ROWS = 12 };
#elif defined(__AVX2__)
enum { LANES = 8, ROWS = 6 };
#else
enum { LANES = 4, ROWS = 4 };
#endif
enum {
    WIDE = 2 * LANES,   /* columns of a panel */
    DEPTH = 128,        /* rows of a panel: half of an L1 at 512 bits */
    LONG = 8 * LANES,   /* columns that are computed at once when there is one row */
    IN_PLACE = 2 * ROWS /* rows of a for which packing is not worth it */
};

typedef float vec __attribute__((vector_size(4 * LANES), may_alias, aligned(4)));
typedef float four __attribute__((vector_size(16), may_alias, aligned(4)));
typedef int four_ints __attribute__((vector_size(16)));
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

typedef struct tile {
    const float *a, *b;
    float *c;
    int64_t k, a_row, a_col, b_row, c_row;
    bool add; /* to what is in c */
} tile;

/* ------------------------------------------------------------------ tiles */
/* Rows of a are reached from every third one, so that few registers hold addresses. */
INLINE void multiply_tile(const tile *t, const int rows, const int vectors)
{
    const int64_t row = t->a_row;
    const float *a[4], *b = t->b;
    vec sum[ROWS][8];
    UNROLL for (int i = 0; i < 4; i++) a[i] = 3 * i < rows ? t->a + 3 * i * row : NULL;
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = (vec){0};
    for (int64_t k = 0; k < t->k; k++) {
        vec y[8];
        UNROLL for (int v = 0; v < vectors; v++) y[v] = *(const vec *)(b + v * LANES);
        UNROLL for (int i = 0; i < rows; i++)
        {
            const vec x = a[i / 3][i % 3 * row] - (vec){0};
            UNROLL for (int v = 0; v < vectors; v++) sum[i][v] += x * y[v];
        }
        UNROLL for (int i = 0; i < 4; i++) if (3 * i < rows) a[i] += t->a_col;
        b += t->b_row;
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
    {
        vec *c = (vec *)(t->c + i * t->c_row + v * LANES);
        if (t->add) sum[i][v] += *c; /* at the end: a long sum is one of short ones */
        *c = sum[i][v];
    }
}

/* A function for every number of rows, with two vectors and with one. */
#define TILE(rows)                                                                                           \
    static void two_##rows(const tile *t)                                                                    \
    {                                                                                                        \
        multiply_tile(t, rows, 2);                                                                           \
    }                                                                                                        \
    static void one_##rows(const tile *t)                                                                    \
    {                                                                                                        \
        multiply_tile(t, rows, 1);                                                                           \
    }
#define ENTRY(rows) {one_##rows, two_##rows},
#if defined(__AVX512F__)
#define EACH(DO) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12)
#elif defined(__AVX2__)
#define EACH(DO) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6)
#else
#define EACH(DO) DO(1) DO(2) DO(3) DO(4)
#endif
EACH(TILE)
static void (*const tiles[ROWS][2])(const tile *) = {EACH(ENTRY)};

static void multiply_long(const tile *t)
{
    multiply_tile(t, 1, LONG / LANES);
}

/* ------------------------------------------------------------------ panels */
/* Four columns of four numbers, of which each lies together, as four rows. */
INLINE void turn(const float *from, int64_t step, float *to, int64_t row)
{
    const four a = *(const four *)from, b = *(const four *)(from + step),
               c = *(const four *)(from + 2 * step), d = *(const four *)(from + 3 * step);
    const four low = {a[0], b[0], a[1], b[1]}, high = {a[2], b[2], a[3], b[3]},
               low2 = {c[0], d[0], c[1], d[1]}, high2 = {c[2], d[2], c[3], d[3]};
    *(four *)to = (four){low[0], low[1], low2[0], low2[1]};
    *(four *)(to + row) = (four){low[2], low[3], low2[2], low2[3]};
    *(four *)(to + 2 * row) = (four){high[0], high[1], high2[0], high2[1]};
    *(four *)(to + 3 * row) = (four){high[2], high[3], high2[2], high2[3]};
}

/* Rows [0, depth) of `columns` columns of b, in rows of `width`; what is beyond is 0. */
static void pack(const float *b, int64_t b_row, int64_t b_col, int64_t depth, int64_t columns, int64_t width,
                 float *to)
{
    if (columns < width) memset(to, 0, (size_t)(depth * width) * sizeof *to);
    if (b_col == 1) {
        for (int64_t k = 0; k < depth; k++)
            memcpy(to + k * width, b + k * b_row, (size_t)columns * sizeof *to);
        return;
    }
    const bool turned = b_row == 1;
    const int64_t by_four = turned ? columns & ~3 : 0, deep = turned ? depth & ~3 : 0;
    for (int64_t j = 0; j < by_four; j += 4)
        for (int64_t k = 0; k < deep; k += 4) turn(b + j * b_col + k, b_col, to + k * width + j, width);
    for (int64_t j = 0; j < columns; j++)
        for (int64_t k = j < by_four ? deep : 0; k < depth; k++) to[k * width + j] = b[k * b_row + j * b_col];
}

/* All rows of a with one panel; c's last columns go through memory that is as wide as a panel. */
static void multiply_panel(const sp_block *p, tile t, int64_t columns)
{
    const int vectors = columns > LANES ? 2 : 1;
    const int64_t blocks = (p->m + ROWS - 1) / ROWS,
                  each = (p->m + blocks - 1) / blocks; /* as even as can be */
    const bool whole = columns == vectors * LANES;
    float edge[ROWS * WIDE];
    for (int64_t i = 0; i < p->m; i += each) {
        const int rows = (int)SP_MIN(each, p->m - i);
        tile now = t;
        float *c = t.c + i * p->c_row;
        now.a = t.a + i * p->a_row;
        now.c = whole ? c : edge;
        now.c_row = whole ? p->c_row : vectors * LANES;
        for (int r = 0; r < rows && !whole && t.add; r++)
            memcpy(edge + r * now.c_row, c + r * p->c_row, (size_t)columns * sizeof *c);
        tiles[rows - 1][vectors - 1](&now);
        for (int r = 0; r < rows && !whole; r++)
            memcpy(c + r * p->c_row, edge + r * now.c_row, (size_t)columns * sizeof *c);
    }
}

/* ------------------------------------------------------------------ few rows */
/* b's columns lie together: each number of c is a dot product. */
static float dot(const float *x, const float *y, int64_t n)
{
    vec sum[4] = {{0}};
    float all = 0;
    int64_t k = 0;
    for (; k + 4 * LANES <= n; k += 4 * LANES)
        UNROLL for (int i = 0; i < 4; i++) sum[i] +=
            *(const vec *)(x + k + i * LANES) * *(const vec *)(y + k + i * LANES);
    for (; k + LANES <= n; k += LANES) sum[0] += *(const vec *)(x + k) * *(const vec *)(y + k);
    sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    for (int i = 0; i < LANES; i++) all += sum[0][i];
    for (; k < n; k++) all += x[k] * y[k];
    return all;
}

/* One vector whose lane j is the sum of s[j]: halves of two are put side by side and added, then quarters, ... */
#define LOW(lane, h)        ((lane) & (h) ? (lane) - (h) + LANES : (lane))
#define HIGH(lane, h)       ((lane) & (h) ? (lane) + LANES : (lane) + (h))
#define FOUR_LANES(M, l, h) M(l, h), M((l) + 1, h), M((l) + 2, h), M((l) + 3, h)
#if defined(__AVX512F__)
#define EACH_LANE(M, h) FOUR_LANES(M, 0, h), FOUR_LANES(M, 4, h), FOUR_LANES(M, 8, h), FOUR_LANES(M, 12, h)
#define HALVES(DO)      DO(8) DO(4) DO(2) DO(1)
#elif defined(__AVX2__)
#define EACH_LANE(M, h) FOUR_LANES(M, 0, h), FOUR_LANES(M, 4, h)
#define HALVES(DO)      DO(4) DO(2) DO(1)
#else
#define EACH_LANE(M, h) FOUR_LANES(M, 0, h)
#define HALVES(DO)      DO(2) DO(1)
#endif
#define FOLD_SUMS(h)                                                                                         \
    UNROLL for (int i = 0; i < h; i++) s[i] = __builtin_shufflevector(s[i], s[i + h], EACH_LANE(LOW, h)) +   \
                                              __builtin_shufflevector(s[i], s[i + h], EACH_LANE(HIGH, h));
INLINE vec sums_of(vec *s)
{
    HALVES(FOLD_SUMS)
    return s[0];
}

/* LANES of them at once. */
static void dots(const float *x, const float *b, int64_t b_col, int64_t n, float *c)
{
    vec sum[LANES] = {{0}};
    const float *y[LANES / 3 + 1];
    int64_t k = 0;
    UNROLL for (int j = 0; j < LANES; j += 3) y[j / 3] = b + j * b_col;
    for (; k + LANES <= n; k += LANES) {
        const vec now = *(const vec *)(x + k);
        UNROLL for (int j = 0; j < LANES; j++) sum[j] += now * *(const vec *)(y[j / 3] + j % 3 * b_col);
        UNROLL for (int j = 0; j < LANES; j += 3) y[j / 3] += LANES;
    }
    vec all = sums_of(sum);
    for (; k < n; k++)
        for (int j = 0; j < LANES; j++) all[j] += x[k] * b[j * b_col + k];
    *(vec *)c = all;
}

static void multiply_by_dots(const sp_block *p)
{
    for (int64_t i = 0; i < p->m; i++) {
        const float *a = p->a + i * p->a_row;
        float *c = p->c + i * p->c_row;
        int64_t j = 0;
        for (; j + LANES <= p->n; j += LANES) dots(a, p->b + j * p->b_col, p->b_col, p->k, c + j);
        for (; j < p->n; j++) c[j] = dot(a, p->b + j * p->b_col, p->k);
    }
}

static void multiply(const sp_block *p)
{
    float panel[DEPTH * WIDE] __attribute__((aligned(64)));
    if (p->m <= 2 && p->a_col == 1 && p->b_row == 1 && p->b_col != 1 && !p->add) {
        multiply_by_dots(p);
        return;
    }
    int64_t j = 0;
    tile t = {p->a, p->b, p->c, p->k, p->a_row, p->a_col, p->b_row, p->c_row, p->add};
    for (; p->m == 1 && p->b_col == 1 && j + LONG <= p->n; j += LONG) {
        t.b = p->b + j;
        t.c = p->c + j;
        multiply_long(&t);
    }
    for (; j < p->n; j += WIDE)
        for (int64_t k = 0; k < p->k; k += DEPTH) {
            const int64_t columns = SP_MIN(p->n - j, (int64_t)WIDE), depth = SP_MIN(p->k - k, (int64_t)DEPTH);
            const int64_t width = columns > LANES ? WIDE : LANES;
            const float *b = p->b + k * p->b_row + j * p->b_col;
            const bool in_place = p->m <= IN_PLACE && p->b_col == 1 && columns == width;
            if (!in_place) pack(b, p->b_row, p->b_col, depth, columns, width, panel);
            t = (tile){p->a + k * p->a_col,
                       in_place ? b : panel,
                       p->c + j,
                       depth,
                       p->a_row,
                       p->a_col,
                       in_place ? p->b_row : width,
                       p->c_row,
                       p->add || k > 0};
            multiply_panel(p, t, columns);
        }
}
