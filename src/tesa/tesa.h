/* tesa: the Tensor-with-Sparsity-Attribute: what is known about which elements exist.
 *
 * A mask is a bitset over a weight seen as (out, in) = (n, k), one bit an element, rows padded to 64 bits,
 * whichever way the file stores the weight:
 *
 *        k ->                         block 4x1: 4 outputs by 1 input
 *      n  1 . . 1 .  ...              present blocks 2 of 5 in this strip
 *      |  1 . . 1 .
 *      v  1 . . 1 .
 *         1 . . 1 .
 *
 * From it: density, a digest (equal for equal masks), and detection: which patterns hold. A pattern NxM
 * *holds* when its blocks are nearly all either absent or full; what storing it by blocks would cost is its
 * fill: stored slots over elements present (1.0: exact). Detection looks at the sizes {1,2,4,8,16,32,64}
 * squared in one pass over a pyramid of counts. The room is narrow for now (2-D masks, blocks, rows,
 * columns); constants, precision and symbolic masks join it later.
 */
#ifndef SPARTA_TESA_H
#define SPARTA_TESA_H

#include "tensor/tensor.h"

typedef struct sparta_mask {
    int64_t rows, cols; /* n, k */
    int64_t words;      /* 64-bit words a row */
    uint64_t *bits;     /* rows * words; bit k%64 of word k/64; padding bits are 0 */
} sparta_mask;

/* A mask of the non-zero elements of a 2-D view (any strides, any type; NaN and Inf are present, -0.0 and 0.0
 * are not). Free with sparta_mask_free. */
sparta_status sparta_mask_of(sparta_ctx *cx, const sparta_tensor *w, sparta_mask *out) SPARTA_MUST;
sparta_status sparta_mask_create(sparta_ctx *cx, int64_t rows, int64_t cols,
                                 sparta_mask *out) SPARTA_MUST; /* all absent */
sparta_status sparta_mask_and(sparta_ctx *cx, sparta_mask *a, const sparta_mask *b) SPARTA_MUST; /* a &= b */
void sparta_mask_free(sparta_ctx *cx, sparta_mask *m);
static inline bool sparta_mask_get(const sparta_mask *m, int64_t n, int64_t k)
{
    return m->bits[n * m->words + k / 64] >> (k % 64) & 1;
}
static inline void sparta_mask_set(sparta_mask *m, int64_t n, int64_t k)
{
    m->bits[n * m->words + k / 64] |= UINT64_C(1) << (k % 64);
}
/* The first set bit of a row of words at or after `from`, or `end`. */
static inline int64_t sparta_bits_next(const uint64_t *bits, int64_t from, int64_t end)
{
    while (from < end) {
        uint64_t x = bits[from / 64] >> (from % 64);
        if (x) return SPARTA_MIN(end, from + __builtin_ctzll(x));
        from = (from / 64 + 1) * 64;
    }
    return end;
}
/* The mask seen from the other side: (k, n). */
sparta_status sparta_mask_transpose(sparta_ctx *cx, const sparta_mask *m, sparta_mask *out) SPARTA_MUST;
/* Is the element at this element offset one that a mask made from values has? */
bool sparta_element_present(sparta_dtype dtype, const void *data, int64_t at);
int64_t sparta_mask_count(const sparta_mask *m);
uint64_t sparta_mask_digest(const sparta_mask *m);

/* What detection found. */
typedef struct sparta_pattern {
    int block_n, block_m; /* the block: 1x1 unstructured */
    double density;       /* elements present / all */
    double fill; /* slots stored by blocks / elements present; 1 when exact, 0 when nothing is present */
    int64_t empty_rows, empty_cols;
    bool dense;    /* nothing is absent */
    char name[24]; /* "dense", "empty", "rows" or "cols" (whole rows or columns are absent, the others full),
                      else the block: "4x1", "1x1" */
} sparta_pattern;
/* The coarsest block that holds: the largest area whose fill is at most `slack` (1.0 exact, e.g. 1.05
 * nearly); on equal area the taller. E_USAGE when slack is below 1. */
sparta_status sparta_mask_detect(sparta_ctx *cx, const sparta_mask *m, double slack,
                                 sparta_pattern *out) SPARTA_MUST;
/* Fill of one block size: slots that n x m blocks would store over elements present (0 when nothing is
 * present). Ragged edges count whole. */
sparta_status sparta_mask_fill(sparta_ctx *cx, const sparta_mask *m, int n, int k, double *out) SPARTA_MUST;

#endif
