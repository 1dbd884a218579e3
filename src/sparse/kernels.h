/* What the kernels of this room are told, and the table of them that each CPU target has. All of them work on f32; where memory holds f16 or
 * bf16 it is converted on the way into the workspace and out of it. Addresses need no alignment beyond that of their elements.
 */
#ifndef SP_SPARSE_KERNELS_H
#define SP_SPARSE_KERNELS_H

#include "sparse/sparse.h"

enum { SP_LANES = 64 }; /* of a panel */

/* rows x lanes between memory with any strides and lines of f32 that lie `line` apart. Lanes up to the next 16 are there, and are 0. */
typedef struct sp_lines {
    void *memory;
    int64_t row, lane; /* strides */
    float *lines;
    int64_t line, rows, lanes;
    sparta_dtype dtype;
} sp_lines;

/* A matrix, f32, and a panel of what it is multiplied with. */
typedef struct sp_multiplying {
    const int32_t *pos, *crd;
    const float *values;
    int64_t rows, cols, height, width;
    /* The rows of blocks that are done: a band. Of the operand that has a line for each row of the matrix (y, turned x) there are those of the
     * band, from row `top` on. */
    int64_t first, last, top;
    /* Turned: the columns of blocks that are done, and whether the result begins and ends with this band. */
    int64_t from, to;
    bool begin, end;
    const float *x;
    float *y;
    int64_t x_line, y_line;
    int groups;        /* of 16 lanes, 1 to 4 */
    int32_t *cursor;   /* turned: one a row of blocks, for the kernel */
    const float *bias; /* one a row of y, added to whole sums; NULL: none */
} sp_multiplying;

/* What happens to rows of a panel after all is summed up: words but the bias. */
typedef struct sp_finishing {
    float *y;
    const float *residual; /* NULL: none */
    int64_t rows, y_line, residual_line;
    int groups;
    const sp_words *words;
} sp_finishing;

/* One row of blocks of a sampled product. Wide: c has lanes along the columns of a block, and scalars are from a. Narrow: lanes are f in both. */
typedef struct sp_sampling {
    const int32_t *crd; /* of its blocks */
    float *values;
    int64_t blocks, height, width, free;
    int64_t high, cols; /* rows of it that exist; columns of the matrix */
    const float *a, *c;
    int64_t a_row, a_free; /* strides; a begins at the first row */
    int64_t c_block, c_column,
        c_free; /* from one column of blocks to the next, from one column to the next */
    float scale;
} sp_sampling;

/* A row of a matrix: row r of a row of blocks. */
typedef struct sp_row {
    const void *values; /* of its first block */
    const uint8_t *keep;
    const int32_t *crd;
    int64_t blocks, height, width, cols, r;
    sparta_dtype dtype;
} sp_row;

typedef struct sp_kernels {
    /* Is an element of crd out of range? And how many do not ascend, whether at the start of a row or not? */
    bool (*outside)(const int32_t *crd, int64_t n, int64_t right);
    int64_t (*falls)(const int32_t *crd, int64_t n);
    void (*pack)(const sp_lines *l);
    void (*unpack)(const sp_lines *l);
    /* n values: those that are not kept are 0. */
    void (*widen)(const void *from, const uint8_t *keep, float *to, int64_t n, sparta_dtype dtype);
    void (*narrow)(const float *from, void *to, int64_t n, sparta_dtype dtype);
    void (*multiply)(const sp_multiplying *p);
    void (*turned)(const sp_multiplying *p);
    void (*finish)(const sp_finishing *p);
    void (*sample_wide)(const sp_sampling *s);
    void (*sample_narrow)(const sp_sampling *s);
    /* The elements of a row side by side, `absent` where none is and up to the next 16; how many that are. And back, 0 where none is. */
    int64_t (*collect)(const sp_row *row, float *to, float sign, float absent);
    void (*put_back)(const sp_row *row, const float *from, void *to);
    /* In place: 2^(step * (row - its largest)), over its sum. */
    void (*softmax)(float *row, int64_t n, float step);
    /* g = scale * p * (g - sum of p * g) */
    void (*gradient)(const float *p, float *g, int64_t n, float scale);
} sp_kernels;

/* Those of a target; `outside` is NULL where the compiler has no such target. */
extern const sp_kernels sp_kernels_avx512, sp_kernels_avx2, sp_kernels_portable;
/* The best that runs here. */
const sp_kernels *sp_kernels_here(void);
void sp_kernels_use(const sp_kernels *kernels); /* for tests; NULL: the best again */

#endif
