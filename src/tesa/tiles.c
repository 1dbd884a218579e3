/* Counting by tiles of 64 rows by one word.
 *
 * Blocks: a tile is a pyramid. The words of height N are the OR of N rows, and a word of width M has one bit for
 * every M:
 *
 *      height 1   64 words ---> width 1, 2, 4 .. 64    (x | x >> 1) & 0101..., then (x | x >> 2) & ...
 *      height 2   32 words ---> width 1, 2, 4 .. 64
 *      ...
 *      height 64   1 word  ---> width 1, 2, 4 .. 64
 *
 * n:m: sort the bits of every group of m rows, 64 columns at once, by merging: OR is the larger, AND the smaller
 * of two bits. Then the c-th word of a group has a bit where more than c are present, and its ones are counted.
 * The other axis is the tile transposed.
 *
 * Where the processor counts bits itself the same body is compiled for it; the counts are the same.
 */
#include "tesa/words.h"
#include <string.h>

#define SIZES SP_BLOCK_SIZES

typedef struct {
    int64_t blocks[SIZES][SIZES];
    int64_t more[2][SP_NM_SIZES][16];
} counts;

#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define VECTORS /* makes vectors at -O2 */
#else
#define VECTORS __attribute__((optimize("O3")))
#endif

INLINE int64_t ones(uint64_t x, bool fast)
{
    return fast ? __builtin_popcountll(x) : (int64_t)sp_ones(x);
}

/* ------------------------------------------------------------------ one tile */

INLINE void blocks_of(uint64_t a[WORD], counts *c, bool fast)
{
    for (int h = 0; h < SIZES; h++) {
        int words = WORD >> h;
        if (h)
            for (int i = 0; i < words; i++) a[i] = a[2 * i] | a[2 * i + 1];
        int64_t n[SIZES] = {0};
        for (int i = 0; i < words; i++) {
            uint64_t x = a[i];
            n[0] += ones(x, fast);
            x = (x | x >> 1) & sp_every[1], n[1] += ones(x, fast);
            x = (x | x >> 2) & sp_every[2], n[2] += ones(x, fast);
            x = (x | x >> 4) & sp_every[3], n[3] += ones(x, fast);
            x = (x | x >> 8) & sp_every[4], n[4] += ones(x, fast);
            x = (x | x >> 16) & sp_every[5], n[5] += (int64_t)((x & 1) + (x >> 32));
            n[6] += x != 0;
        }
        for (int w = 0; w < SIZES; w++) c->blocks[h][w] += n[w];
    }
}

INLINE void compare(uint64_t *larger, uint64_t *smaller)
{
    uint64_t x = *larger, y = *smaller;
    *larger = x | y;
    *smaller = x & y;
}

/* Merge pairs of runs of m/2 that descend into runs of m; step d compares neighbours d apart. */
INLINE void merge(uint64_t a[WORD], int m)
{
    for (int g = 0; g < WORD; g += m)
        for (int i = 0; i < m / 2; i++) compare(&a[g + i], &a[g + m - 1 - i]);
    for (int d = m / 4; d; d /= 2)
        for (int g = 0; g < WORD; g += 2 * d)
            for (int i = 0; i < d; i++) compare(&a[g + i], &a[g + i + d]);
}

INLINE void groups_of_size(uint64_t a[WORD], int m, int64_t more[16], bool fast)
{
    merge(a, m);
    for (int i = 0; i < m; i++) {
        int64_t n = 0;
        for (int g = 0; g < WORD; g += m) n += ones(a[g + i], fast);
        more[i] += n;
    }
}

INLINE void groups_of(uint64_t a[WORD], int64_t more[][16], bool fast)
{
    groups_of_size(a, 2, more[0], fast); /* the sizes stand here so that the loops have constant bounds */
    groups_of_size(a, 4, more[1], fast);
    groups_of_size(a, 8, more[2], fast);
    groups_of_size(a, 16, more[3], fast);
}

INLINE void tile(uint64_t a[WORD], counts *c, bool groups, bool fast)
{
    uint64_t b[WORD];
    if (groups) {
        memcpy(b, a, sizeof b);
        groups_of(b, c->more[0], fast);
        memcpy(b, a, sizeof b);
        sp_tile_transpose(b);
        groups_of(b, c->more[1], fast);
    }
    blocks_of(a, c, fast);
}

static void tile_anywhere(uint64_t a[WORD], counts *c, bool groups)
{
    tile(a, c, groups, false);
}

#if defined(__x86_64__)
__attribute__((target("popcnt,avx2"))) static void tile_popcnt(uint64_t a[WORD], counts *c, bool groups)
{
    tile(a, c, groups, true);
}
__attribute__((target("popcnt,avx512f,avx512vpopcntdq"))) VECTORS static void tile_vpopcnt(uint64_t a[WORD],
                                                                                           counts *c,
                                                                                           bool groups)
{
    tile(a, c, groups, true);
}
#endif

typedef void (*tile_counter)(uint64_t a[WORD], counts *c, bool groups);

/* The best at or below `way` that this processor has. */
static tile_counter counter(sp_tile_way way)
{
#if defined(__x86_64__)
    bool vectors = __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("avx512f");
    bool words = __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("avx2");
    if (way >= SP_TILE_VPOPCNT && vectors && words) return tile_vpopcnt;
    if (way >= SP_TILE_POPCNT && words) return tile_popcnt;
#else
    (void)way;
#endif
    return tile_anywhere;
}

/* ------------------------------------------------------------------ all tiles */

static sparta_status count_all(sparta_ctx *cx, const sp_mask *m, tile_counter count_tile, bool groups,
                               counts *c, uint64_t *in_col)
{
    uint64_t a[WORD];
    for (int64_t n0 = 0; n0 < m->rows; n0 += WORD) {
        SP_TRY(sp_check_cancel(cx));
        int64_t rows = SP_MIN(WORD, m->rows - n0);
        for (int64_t j = 0; j < m->words; j++) {
            uint64_t any = 0;
            for (int64_t i = 0; i < rows; i++) any |= a[i] = m->bits[(n0 + i) * m->words + j];
            for (int64_t i = rows; i < WORD; i++) a[i] = 0;
            in_col[j] |= any;
            if (any) count_tile(a, c, groups);
        }
    }
    return SPARTA_OK;
}

sparta_status sp_count_blocks(sparta_ctx *cx, const sp_mask *m, int64_t (*blocks)[SIZES], uint64_t *in_col)
{
    counts c = {0};
    SP_TRY(count_all(cx, m, counter(SP_TILE_VPOPCNT), false, &c, in_col));
    memcpy(blocks, c.blocks, sizeof c.blocks);
    return SPARTA_OK;
}

sparta_status sp_count_tiles(sparta_ctx *cx, const sp_mask *m, sp_tile_way way, sp_mask_facts *facts,
                             uint64_t *in_col)
{
    counts c = {0};
    SP_TRY(count_all(cx, m, counter(way), true, &c, in_col));
    memcpy(facts->blocks, c.blocks, sizeof c.blocks);
    memcpy(facts->more, c.more, sizeof c.more);
    return SPARTA_OK;
}
