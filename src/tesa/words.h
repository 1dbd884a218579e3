/* Bits of rows of words, 64 a step: what the files of this room share. Bit k of a row is bit k%64 of word k/64. */
#ifndef SP_TESA_WORDS_H
#define SP_TESA_WORDS_H

#include "tesa/tesa.h"

#define WORD 64

/* Ones at multiples of 2^s. */
static const uint64_t sp_every[7] = {UINT64_MAX,
                                     UINT64_C(0x5555555555555555),
                                     UINT64_C(0x1111111111111111),
                                     UINT64_C(0x0101010101010101),
                                     UINT64_C(0x0001000100010001),
                                     UINT64_C(0x0000000100000001),
                                     UINT64_C(0x0000000000000001)};

/* Written out: without -mpopcnt the builtin is a call, this becomes vectors. */
static inline uint64_t sp_ones(uint64_t x)
{
    x -= x >> 1 & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return x * UINT64_C(0x0101010101010101) >> 56;
}

/* The lowest n bits, n from 0 to 64. */
static inline uint64_t sp_low(int64_t n)
{
    return n >= WORD ? UINT64_MAX : (UINT64_C(1) << n) - 1;
}

/* Bits [from, from + n), n at most 64, of a row; reads no word that holds none of them. */
static inline uint64_t sp_bits_get(const uint64_t *row, int64_t from, int64_t n)
{
    if (n <= 0) return 0;
    int shift = (int)(from % WORD);
    uint64_t x = row[from / WORD] >> shift;
    if (shift + n > WORD) x |= row[from / WORD + 1] << (WORD - shift);
    return x & sp_low(n);
}

/* OR n bits (at most 64; the others of x are 0) into a row at `to`. */
static inline void sp_bits_or(uint64_t *row, int64_t to, uint64_t x, int64_t n)
{
    if (n <= 0) return;
    int shift = (int)(to % WORD);
    row[to / WORD] |= x << shift;
    if (shift + n > WORD) row[to / WORD + 1] |= x >> (WORD - shift);
}

static inline void sp_bits_fill(uint64_t *row, int64_t from, int64_t end)
{
    for (int64_t at = from; at < end;) {
        int64_t some = SP_MIN(WORD - at % WORD, end - at);
        row[at / WORD] |= sp_low(some) << (at % WORD);
        at += some;
    }
}

/* log2 of 1, 2, 4 .. 64, or -1. */
static inline int sp_log2_of(int64_t k)
{
    return k >= 1 && k <= WORD && !(k & (k - 1)) ? __builtin_ctzll((uint64_t)k) : -1;
}

static inline int64_t sp_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

static inline uint64_t *sp_mask_row(const sp_mask *m, int64_t n)
{
    return m->bits + n * m->words;
}

/* Bit c of a[r] becomes bit r of a[c] (mask.c). */
void sp_tile_transpose(uint64_t a[WORD]);
/* Bits at multiples of 2^s to the lowest 64 >> s bits, and back (blocks.c). */
uint64_t sp_word_squeeze(uint64_t x, int s);
uint64_t sp_word_spread(uint64_t x, int s);
/* Elements of rows [n0, n1) in each block of k columns, added to count (blocks.c). */
void sp_strip_counts(const sp_mask *m, int64_t n0, int64_t n1, int64_t k, int64_t *count);
/* Blocks with anything in them, [log2 height][log2 width], of all tiles, and the union of all rows (tiles.c). */
sparta_status sp_count_blocks(sparta_ctx *cx, const sp_mask *m, int64_t (*blocks)[SP_BLOCK_SIZES],
                              uint64_t *in_col) SP_MUST;
/* The same, and groups of 2, 4, 8, 16 neighbours with more than c elements, along either axis. `way` is the most
 * of the processor to use: tests compare them. */
typedef enum { SP_TILE_ANYWHERE, SP_TILE_POPCNT, SP_TILE_VPOPCNT } sp_tile_way;
sparta_status sp_count_tiles(sparta_ctx *cx, const sp_mask *m, sp_tile_way way, sp_mask_facts *facts,
                             uint64_t *in_col) SP_MUST;
/* The format text that stores blocks of n x m (report.c). */
void sp_block_format(int64_t n, int64_t m, int64_t cols, char *text, size_t size);
/* Square blocks with at least least[i] elements: how many, and what is in them (mixture.c). */
sparta_status sp_count_dense(sparta_ctx *cx, const sp_mask *m, const int64_t *least, int64_t *blocks,
                             int64_t *inside) SP_MUST;

#endif
