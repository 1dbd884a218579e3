/* dense.cu: blocks as a dense matrix and back, and the epilogue of sums that another library made.
 *
 *     values (blocks, height, width)  --unpack-->  matrix (rows, step)      zeros where keep says so; what lies past the edge is not written
 *     sums f32 (rows, step)           --gather-->  values                   scaled; 0 where an element does not exist
 *     sums f32 (tokens, step)         --finish-->  y (tokens, made)         the words, then rounded once
 *
 * Parameters: DTYPE, WORDS, WORD0 ... (common.cuh); VECTOR, of unpack and gather: elements of a row of a block that a thread takes at once, which divide width and step.
 * Any grid: each thread takes every so-manieth. pos and crd may hold anything: what leads outside of the matrix is neither read nor written.
 * It is C, too: a test runs it on the CPU. */
#ifdef VECTOR
typedef struct __align__(VECTOR * sizeof(ELEMENT)) several {
    ELEMENT at[VECTOR];
} several;

/* A place in the matrix; row -1: none. */
typedef struct place {
    i64 row, col;
} place;
typedef struct pattern {
    const i32 *pos, *crd;
    const u8 *keep;
    i64 blocks, down, rows, cols, step;
    i32 height, width;
} pattern;

/* The row of blocks: the last whose first block is not behind this one. */
DEVICE i64 row_of(const pattern *p, i64 block)
{
    i64 low = 0, high = p->down;
    while (high - low > 1) {
        const i64 middle = (low + high) / 2;
        if (p->pos[middle] <= block)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Of the VECTOR elements from e on. */
DEVICE place place_of(const pattern *p, i64 e)
{
    const i64 each = (i64)p->height * p->width, block = e / each;
    const u32 in = (u32)(e - block * each), i = in / (u32)p->width, j = in - i * (u32)p->width;
    place at = {row_of(p, block) * p->height + i, (i64)p->crd[block] * p->width + j};
    if (at.row >= p->rows || at.col < 0 || at.col >= p->cols) at.row = -1;
    return at;
}

KERNEL unpack(ELEMENT *matrix, const ELEMENT *values, pattern p)
{
    const i64 all = p.blocks * p.height * p.width / VECTOR;
    for (i64 n = blockIdx.x * (i64)blockDim.x + threadIdx.x; n < all; n += (i64)gridDim.x * blockDim.x) {
        const i64 e = n * VECTOR;
        const place at = place_of(&p, e);
        if (at.row < 0) continue;
        several v = *(const several *)(values + e);
        if (p.keep)
            for (int k = 0; k < VECTOR; k++)
                if (!p.keep[e + k]) v.at[k] = 0;
        *(several *)(matrix + at.row * p.step + at.col) = v;
    }
}

KERNEL gather(ELEMENT *values, const float *sums, pattern p, float scale)
{
    const i64 all = p.blocks * p.height * p.width / VECTOR;
    for (i64 n = blockIdx.x * (i64)blockDim.x + threadIdx.x; n < all; n += (i64)gridDim.x * blockDim.x) {
        const i64 e = n * VECTOR;
        const place at = place_of(&p, e);
        several v;
        for (int k = 0; k < VECTOR; k++) {
            const bool there = at.row >= 0 && at.col + k < p.cols && (!p.keep || p.keep[e + k]);
            v.at[k] = there ? narrow(scale * sums[at.row * p.step + at.col + k]) : (ELEMENT)0;
        }
        *(several *)(values + e) = v;
    }
}
#endif

#ifdef WORDS
/* Features along x, tokens along y. */
KERNEL finish(ELEMENT *y, const float *sums, const ELEMENT *bias, const ELEMENT *residual, i64 y_step, i64 step,
              i64 residual_step, i64 tokens, i64 made)
{
    for (i64 t = blockIdx.y; t < tokens; t += gridDim.y)
        for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < made; i += (i64)gridDim.x * blockDim.x)
            y[t * y_step + i] = narrow(epilogue(sums[t * step + i], bias ? wide(bias[i]) : 0.f,
                                                residual ? wide(residual[t * residual_step + i]) : 0.f));
}
#endif
