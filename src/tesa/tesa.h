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
 * From it: density, a digest (equal for equal masks), and
 *
 *   detection   which patterns hold and what storing by them costs                                     detect.c report.c mixture.c
 *   orders      a permutation of rows that brings blocks together                                      order.c
 *   covers      the mask as a sum of disjoint parts: blocks of several sizes and an unstructured rest  cover.c
 *   blocks      from elements to blocks and back                                                       blocks.c
 *   text        print and parse                                                                        text.c
 *
 * attribute.h has the object that gives the room its name: the attribute of a value of any rank, what is known of its elements.
 *
 * A pattern *holds* when what it stores is nearly what is present; its fill is stored slots over elements
 * present (1.0: exact). A tensor of more dimensions is a mask by flattening: a convolution's (O,I,kh,kw) is
 * (O, I*kh*kw), as its product sees it. docs/tesa.md has the drawings, the laws and the measured times.
 */
#ifndef SP_TESA_H
#define SP_TESA_H

#include "tensor/tensor.h"

typedef struct sp_mask {
    int64_t rows, cols; /* n, k */
    int64_t words;      /* 64-bit words a row */
    uint64_t *bits;     /* rows * words; bit k%64 of word k/64; padding bits are 0 */
} sp_mask;

/* A mask of the non-zero elements of a 2-D view (any strides, any type; NaN and Inf are present, 0.0 is not, and
 * -0.0 is in a strict context only). Free with sp_mask_free. */
sparta_status sp_mask_of(sparta_ctx *cx, const sparta_tensor *w, sp_mask *out) SP_MUST;
/* All absent. */
sparta_status sp_mask_create(sparta_ctx *cx, int64_t rows, int64_t cols, sp_mask *out) SP_MUST;
void sp_mask_free(sparta_ctx *cx, sp_mask *m);
static inline bool sp_mask_get(const sp_mask *m, int64_t n, int64_t k)
{
    return m->bits[n * m->words + k / 64] >> (k % 64) & 1;
}
static inline void sp_mask_set(sp_mask *m, int64_t n, int64_t k)
{
    m->bits[n * m->words + k / 64] |= UINT64_C(1) << (k % 64);
}
/* The first set bit of a row of words at or after `from`, or `end`. */
static inline int64_t sp_bits_next(const uint64_t *bits, int64_t from, int64_t end)
{
    while (from < end) {
        uint64_t x = bits[from / 64] >> (from % 64);
        if (x) return SP_MIN(end, from + __builtin_ctzll(x));
        from = (from / 64 + 1) * 64;
    }
    return end;
}
/* The mask seen from the other side: (k, n). */
sparta_status sp_mask_transpose(sparta_ctx *cx, const sp_mask *m, sp_mask *out) SP_MUST;
int64_t sp_mask_count(const sp_mask *m);
uint64_t sp_mask_digest(const sp_mask *m);

/* What detection found. */
typedef struct sp_pattern {
    int block_n, block_m; /* the block: 1x1 unstructured */
    double density;       /* elements present / all */
    double fill; /* slots stored by blocks / elements present; 1 when exact, 0 when nothing is present */
    int64_t empty_rows, empty_cols;
    bool dense; /* nothing is absent */
    /* "dense", "empty", "rows" or "cols" (whole rows or columns are absent, the others full), else the block: "4x1", "1x1" */
    char name[24];
} sp_pattern;
/* The coarsest block that holds: the largest area whose fill is at most `slack` (1.0 exact, e.g. 1.05
 * nearly); on equal area the taller. E_USAGE when slack is below 1. */
sparta_status sp_mask_detect(sparta_ctx *cx, const sp_mask *m, double slack, sp_pattern *out) SP_MUST;
/* Fill of one block size: slots that n x m blocks would store over elements present (0 when nothing is
 * present). Ragged edges count whole. */
sparta_status sp_mask_fill(sparta_ctx *cx, const sp_mask *m, int n, int k, double *out) SP_MUST;

/* New masks, to be freed; `out` may not be an argument. */
/* Row i of the result is row order[i]; order must be a permutation. */
sparta_status sp_mask_permute(sparta_ctx *cx, const sp_mask *m, const int64_t *order, sp_mask *out) SP_MUST;
/* One bit a block of n x k: anything in it. The last blocks may be smaller. With refine it is adjoint:
 * coarsen(x) within b  <=>  x within refine(b). */
sparta_status sp_mask_coarsen(sparta_ctx *cx, const sp_mask *m, int64_t n, int64_t k, sp_mask *out) SP_MUST;
/* Every bit a block of n x k, cut to rows x cols (which must have as many blocks). */
sparta_status sp_mask_refine(sparta_ctx *cx, const sp_mask *blocks, int64_t n, int64_t k,
                             const int64_t shape[2], sp_mask *out) SP_MUST;

/* ------------------------------------------------------------------ the full report */
#define SP_BLOCK_SIZES   7   /* 1 2 4 8 16 32 64 */
#define SP_NM_SIZES      4   /* groups of 2 4 8 16 */
#define SP_FINDINGS      112 /* more than there can be */
#define SP_MIXTURE_SIZES 4   /* 8 16 32 64 */

typedef enum {
    SP_FIND_BLOCK,     /* n x m blocks; 1x1 is "unstructured" and always found */
    SP_FIND_NM_COLS,   /* at most n of m neighbours of a row */
    SP_FIND_NM_ROWS,   /* at most n of m neighbours of a column */
    SP_FIND_ROWS,      /* whole rows */
    SP_FIND_COLS,      /* whole columns */
    SP_FIND_HEAD_ROWS, /* n consecutive whole rows */
    SP_FIND_HEAD_COLS, /* m consecutive whole columns */
    SP_FIND_DIAGONALS, /* whole diagonals: n of them */
    SP_FIND_BAND,      /* every diagonal k-n from `n` to `m` */
    SP_FIND_MIXTURE    /* n x m blocks, those that are full enough, and an unstructured rest */
} sp_find;

typedef struct sp_finding {
    sp_find kind;
    int64_t n, m;
    int64_t slots;  /* elements the pattern has room for */
    int64_t missed; /* elements it has no slot for: only n:m */
    double fill;    /* slots / elements present */
    bool exact;     /* fill is 1, nothing missed */
    size_t bytes;   /* of all arrays of `format`, its padding too */
    /* "4x1", "2:4 along k", "rows", "heads of 64 rows", "5 diagonals", "band -2..2", "32x32 and rest" */
    char name[32];
    char format[96]; /* the text that stores it */
} sp_finding;

typedef struct sp_report_options {
    double slack;                 /* hold: fill and 1 + missed/present at most this; at least 1 */
    int64_t head_rows, head_cols; /* 0: do not look for heads */
    size_t element;               /* bytes of a value, 0: 4 */
} sp_report_options;

typedef struct sp_mask_facts {
    int64_t rows, cols, present;
    /* [log2 n][log2 m]: blocks with anything in them */
    int64_t blocks[SP_BLOCK_SIZES][SP_BLOCK_SIZES];
    /* [along k][log2 m - 1][c]: groups of m neighbours with more than c elements present */
    int64_t more[2][SP_NM_SIZES][16];
    int64_t used_rows, used_cols; /* with anything in them */
    int64_t full_rows, full_cols;
    int64_t head_rows, head_cols;                   /* heads with anything in them */
    int64_t diagonals, diagonal_slots, first, last; /* used ones, their length, the range of k - n */
    /* [log2 n - 3], n = 8 16 32 64: n x n blocks at least 1/slack full and no larger than as single elements, and what is in them */
    int64_t dense_blocks[SP_MIXTURE_SIZES], in_dense[SP_MIXTURE_SIZES];
    int64_t finding_count;
    sp_finding finding[SP_FINDINGS]; /* those that hold, by bytes */
} sp_mask_facts;

/* Everything detection can say about a mask, in one pass over tiles of 64x64 and one over rows. E_USAGE when
 * the slack is below 1 or a head size negative. */
sparta_status sp_mask_report(sparta_ctx *cx, const sp_mask *m, const sp_report_options *options,
                             sp_mask_facts *out) SP_MUST;

/* A search of its own: an order of the rows in which blocks of n x m show. Equal rows come together, then,
 * greedily, the row that adds least to its block. The present order is kept when it is as good. */
typedef struct sp_row_order {
    int64_t *order; /* rows; row i of the new mask is row order[i]. Free with sp_free */
    double fill_before, fill_after;
    char format[96]; /* the text that stores the rows in that order */
} sp_row_order;
sparta_status sp_mask_order_rows(sparta_ctx *cx, const sp_mask *m, int n, int k, sp_row_order *out) SP_MUST;
/* ------------------------------------------------------------------ covers */
#define SP_COVER_SIZES 6
/* A size of block and what it costs: each block, each slot of it, and each strip of n rows that has one. */
typedef struct sp_cover_size {
    int64_t n, m;
    double block, slot, segment;
} sp_cover_size;

typedef struct sp_cover_part {
    int64_t n, m;
    sp_mask mask; /* the elements this part stores */
    int64_t blocks, slots, segments;
    double cost;
} sp_cover_part;

typedef struct sp_cover {
    int parts; /* one for every size, in its order, empty ones too */
    sp_cover_part part[SP_COVER_SIZES];
    double cost;
} sp_cover;

/* A mask as a sum of disjoint parts whose union is the mask. Sizes go from large to small and each divides the
 * one before (E_USAGE otherwise); the last takes what is left, usually 1x1. Costs are numbers from 0 to 1e30.
 * For every strip of the largest height it decides which sizes may appear in it, and then, exactly, which blocks: the
 * optimum when no segment costs anything. */
sparta_status sp_mask_cover(sparta_ctx *cx, const sp_mask *m, const sp_cover_size *size, int sizes,
                            sp_cover *out) SP_MUST;
void sp_cover_free(sparta_ctx *cx, sp_cover *cover);

/* ------------------------------------------------------------------ text
 *     mask 2x8 hex 0f 80          a row a word, a digit four columns, column 0 the lowest bit of the first digit
 *     mask 2x8 rle 4 4 3 1 4      absent, present, absent .. in row order; only the first may be 0
 * Print writes the shorter (rle on a draw); parse takes either and refuses whatever is not whole (E_FORMAT). */
void sp_mask_print(const sp_mask *m, sp_text *out);
sparta_status sp_mask_parse(sparta_ctx *cx, const char *text, sp_mask *out) SP_MUST;

#endif
