/* Masks: made from values, combined, counted, hashed; 64 elements a step.
 *
 * A word of a mask covers 64 inputs of one output. Where the file stores inputs next to each other a word is
 * made from 64 neighbours. Where it stores outputs next to each other (a k-major weight seen as (n,k)) a
 * 64x64 tile is read along memory, which gives it transposed, and turned in registers: both ways touch every
 * cache line once.
 */
#include "tesa/words.h"
#include <string.h>

#define TILE 64

/* ------------------------------------------------------------------ words from values */

/* How to look at an element: its bytes, and the bits that make it non-zero (all but a float's sign). */
typedef struct {
    size_t size;
    uint64_t keep;
} lens;

static lens lens_of(sparta_dtype dtype)
{
    size_t size = sparta_dtype_size(dtype);
    uint64_t all = UINT64_MAX >> (64 - 8 * size);
    return (lens){size, sp_dtype_is_float(dtype) ? all >> 1 : all};
}

/* 64 bytes of 0 or 1 to 64 bits: the product collects eight low bits in the top byte. */
static uint64_t bits_of_flags(const uint8_t flag[TILE])
{
    uint64_t word = 0;
    for (int b = 0; b < 8; b++) {
        uint64_t eight = 0;
        for (int i = 0; i < 8; i++) eight |= (uint64_t)flag[8 * b + i] << (8 * i);
        word |= (eight * UINT64_C(0x0102040810204080) >> 56) << (8 * b);
    }
    return word;
}

/* One function per element size; the inner loop over neighbours is one the compiler makes vectors of. */
#define WORD_OF(T)                                                                                           \
    static uint64_t word_of_##T(const void *data, int64_t at, int64_t stride, int count, uint64_t bits)      \
    {                                                                                                        \
        const T *p = (const T *)data + at, keep = (T)bits;                                                   \
        uint8_t flag[TILE] = {0};                                                                            \
        if (count == TILE && stride == 1) {                                                                  \
            for (int i = 0; i < TILE; i++) flag[i] = (p[i] & keep) != 0;                                     \
        } else {                                                                                             \
            for (int i = 0; i < count; i++) flag[i] = (p[i * stride] & keep) != 0;                           \
        }                                                                                                    \
        return bits_of_flags(flag);                                                                          \
    }
SP_EACH_SIZE(WORD_OF)

/* `count` (at most 64) elements from element offset `at` on. */
static uint64_t word_of(lens l, const void *data, int64_t at, int64_t stride, int count)
{
    return SP_BY_SIZE(l.size, word_of, data, at, stride, count, l.keep);
}

/* ------------------------------------------------------------------ tiles */

/* Bit c of a[r] becomes bit r of a[c]: swap halves, then quarters of the halves, ... (Hacker's Delight 7-3). */
void sp_tile_transpose(uint64_t a[TILE])
{
    uint64_t low = UINT64_C(0x00000000ffffffff);
    for (int j = TILE / 2; j; j >>= 1, low ^= low << j)
        for (int k = 0; k < TILE; k = (k + j + 1) & ~j) {
            uint64_t t = ((a[k] >> j) ^ a[k + j]) & low;
            a[k] ^= t << j;
            a[k + j] ^= t;
        }
}

/* Write a tile whose a[k] holds outputs n0.. of input k0+k as words of the mask. */
static void put_transposed(sp_mask *m, int64_t n0, int64_t k0, uint64_t a[TILE])
{
    sp_tile_transpose(a);
    int64_t rows = SP_MIN(TILE, m->rows - n0);
    for (int64_t n = 0; n < rows; n++) m->bits[(n0 + n) * m->words + k0 / TILE] = a[n];
}

static void fill_by_rows(sp_mask *m, const sparta_tensor *w, lens l)
{
    for (int64_t n = 0; n < m->rows; n++)
        for (int64_t j = 0; j < m->words; j++) {
            int count = (int)SP_MIN(TILE, m->cols - j * TILE);
            m->bits[n * m->words + j] =
                word_of(l, w->data, n * w->stride[0] + j * TILE * w->stride[1], w->stride[1], count);
        }
}

static void fill_by_cols(sp_mask *m, const sparta_tensor *w, lens l)
{
    uint64_t a[TILE];
    for (int64_t k0 = 0; k0 < m->cols; k0 += TILE)
        for (int64_t n0 = 0; n0 < m->rows; n0 += TILE) {
            int count = (int)SP_MIN(TILE, m->rows - n0);
            for (int64_t k = 0; k < TILE; k++)
                a[k] = k0 + k < m->cols ? word_of(l, w->data, n0 * w->stride[0] + (k0 + k) * w->stride[1],
                                                  w->stride[0], count)
                                        : 0;
            put_transposed(m, n0, k0, a);
        }
}

/* ------------------------------------------------------------------ the public part */

sparta_status sp_mask_create(sparta_ctx *cx, int64_t rows, int64_t cols, sp_mask *out)
{
    if (rows < 0 || cols < 0)
        return sp_fail(cx, SPARTA_E_SHAPE, "mask: %lldx%lld is no shape", (long long)rows, (long long)cols);
    int64_t words = cols / TILE + (cols % TILE != 0);
    size_t all;
    if (!sp_size_mul((size_t)rows, (size_t)words, &all) || !sp_size_mul(all, sizeof(uint64_t), &all) ||
        all > INT64_MAX)
        return sp_fail(cx, SPARTA_E_SHAPE, "mask: %lldx%lld elements are too many", (long long)rows,
                       (long long)cols);
    uint64_t *bits = sp_zalloc(cx, all);
    SP_NEED(cx, bits);
    *out = (sp_mask){rows, cols, words, bits};
    return SPARTA_OK;
}

static sparta_status mask_through(sparta_ctx *cx, const sparta_tensor *w, lens l, sp_mask *out)
{
    if (w->rank != 2)
        return sp_fail(cx, SPARTA_E_SHAPE,
                       "mask: a mask is made from 2 dimensions, the tensor has %d; view it as (n,k)",
                       w->rank);
    sp_mask m;
    SP_TRY(sp_mask_create(cx, w->dim[0], w->dim[1], &m));
    int64_t along_n = w->stride[0] < 0 ? -w->stride[0] : w->stride[0];
    int64_t along_k = w->stride[1] < 0 ? -w->stride[1] : w->stride[1];
    bool any = m.rows && m.words; /* a hostile shape may have very many rows of nothing */
    if (any && along_n < along_k && m.rows > 1)
        fill_by_cols(&m, w, l);
    else if (any)
        fill_by_rows(&m, w, l);
    *out = m;
    return SPARTA_OK;
}

sparta_status sp_mask_of(sparta_ctx *cx, const sparta_tensor *w, sp_mask *out)
{
    const lens any_bit = {sparta_dtype_size(w->dtype), UINT64_MAX};
    return mask_through(cx, w, sp_ctx_strict(cx) ? any_bit : lens_of(w->dtype), out);
}

sparta_status sp_mask_transpose(sparta_ctx *cx, const sp_mask *m, sp_mask *out)
{
    sp_mask t;
    SP_TRY(sp_mask_create(cx, m->cols, m->rows, &t));
    uint64_t a[TILE];
    for (int64_t n0 = 0; m->words && n0 < m->rows; n0 += TILE)
        for (int64_t j = 0; j < m->words; j++) {
            for (int64_t n = 0; n < TILE; n++) a[n] = n0 + n < m->rows ? m->bits[(n0 + n) * m->words + j] : 0;
            put_transposed(&t, j * TILE, n0, a);
        }
    *out = t;
    return SPARTA_OK;
}

void sp_mask_free(sparta_ctx *cx, sp_mask *m)
{
    if (!m) return;
    sp_free(cx, m->bits);
    *m = (sp_mask){0};
}

int64_t sp_mask_count(const sp_mask *m)
{
    uint64_t count = 0;
    for (int64_t i = 0; i < m->rows * m->words; i++) count += sp_ones(m->bits[i]);
    return (int64_t)count;
}

uint64_t sp_mask_digest(const sp_mask *m)
{
    int64_t shape[2] = {m->rows, m->cols}; /* 2x3 and 3x2 may have the same words */
    uint64_t seed = sp_hash(shape, sizeof shape, 0);
    return sp_hash(m->bits, (size_t)(m->rows * m->words) * sizeof(uint64_t), seed);
}
