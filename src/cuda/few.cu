/* few.cu: y(t, i) = sum over j of S(i, j) x(t, j) for 1 to 64 tokens, at the speed of memory. f16 and bf16, sums in f32.
 *
 * With so few tokens a product does nothing but read values, once. What counts is bytes under way: every warp keeps DEPTH units of values in flight, straight
 * to the registers that mma.m16n8k16 reads. No shared memory, no barrier, no copy engine on that path; so the text also serves sm_80.
 *
 *   strip     a thread block computes ROWS rows (16, 32, 64) of the 64 or more that a strip of the index has: 64 / HEIGHT parts of blocks, or a piece of one. Long
 *             strips come first, unless all are on the chip at once (ORDERED 0): then their order means nothing, and is not waited for.
 *   list      the steps of the strip that have a block in these rows, in order, in shared memory: up to LIST at a time
 *   unit      the blocks of the list, side by side, are one run of columns; a unit is the next SPAN of them (32 or 64). Warps take units in turn: 0, WARPS, ...
 *
 *                 list      block 7        block 9        block 12            HEIGHT x WIDTH each, here WIDTH = SPAN / 2
 *                        |==============|==============|==============|
 *                 unit   |-------------0---------------|-------------1---- - -     past the last block: zeros
 *
 *   sums      a warp has ROWS x 8 TILES of them in registers; in the end those of all warps meet in shared memory and are added in the order of the warps,
 *             go through the words of the epilogue and are stored. The same bits in every run.
 *
 * Order of k inside of 32 columns. mma wants, of row g and of row g + 8, the elements k = 2q, 2q + 1, 2q + 8, 2q + 9 in lane 4g + q, and the same k of token g. A sum
 * does not mind which column is called k as long as values and x agree. So lane q takes the 16 bytes that lie there, columns 8q .. 8q + 7, and calls them:
 *
 *     column   8q + 0, 1     2, 3       |  4, 5      6, 7
 *     k           2q     2q + 8         |  2q     2q + 8
 *              first k16 (registers 0, 1)  second k16 (2, 3)
 *
 * Two loads of 16 bytes are then a fragment of values for 32 columns, one load is the fragment of 8 tokens. Where WIDTH is 16, lanes 0, 1 read one
 * block and lanes 2, 3 the next: each lane looks up its own place in the list.
 *
 * Parameters: DTYPE 0, 1; WORDS, WORD0 ...; HEIGHT, WIDTH of a block; TILES of 8 tokens, 1 to 8; ROWS, WARPS, SPAN, DEPTH;
 *   AHEAD   1: x is fetched as early as values are; 0: when its unit is multiplied (many tokens: registers)
 *   OCC     thread blocks of a multiprocessor that registers must allow
 *   ORDERED 1: strips are taken in the order of the index
 *   PDL     1: sm_90a, launched with overlap. Values and x may come from the kernel before, so nothing is read ahead of the wait.
 * Entry: few. Shared memory: SP_FEW_SHARED bytes.
 *
 * The first part is C too: the unit test walks an index with it.
 */
#define SP_FEW_CHUNK 8   /* elements of a load: 16 bytes */
#define SP_FEW_TILE  16  /* rows of an mma */
#define SP_FEW_LANES 4   /* that share a row of a fragment */
#define SP_FEW_LIST  512 /* steps that are listed at once */

/* Bytes of dynamic shared memory: the sums of each warp; lines have an odd length, so that a column meets all banks. */
#define SP_FEW_LINE(tiles)                 (8 * (tiles) + 1)
#define SP_FEW_SHARED(warps, rows, tiles)  ((warps) * (rows)*SP_FEW_LINE(tiles) * 4)

/* Rows of a strip of the index. */
SP_BOTH int sp_few_strip(int height)
{
    return height > SP_STRIP ? height : SP_STRIP;
}
/* Parts of a step that are in `rows` rows: their number, and the first of piece `piece`. */
SP_BOTH int sp_few_parts(int height, int rows)
{
    return height < rows ? rows / height : 1;
}
SP_BOTH int sp_few_first(int height, int rows, int piece)
{
    return height < SP_STRIP ? piece * rows / height : 0;
}
/* Tile m of these rows: which of the listed parts it is in. Its first row in that block is sp_few_top + sp_few_down. */
SP_BOTH int sp_few_part(int height, int rows, int m)
{
    return height < rows ? m * SP_FEW_TILE / height : 0;
}
SP_BOTH int sp_few_top(int height, int rows, int piece)
{
    return height < rows ? 0 : piece * rows % height;
}
SP_BOTH int sp_few_down(int height, int rows, int m)
{
    return height < rows ? m * SP_FEW_TILE % height : m * SP_FEW_TILE;
}
/* Units of a list of n steps. */
SP_BOTH int sp_few_units(int width, int span, int n)
{
    return (n * width + span - 1) / span;
}
/* Lane q begins at this column of the run in 32 columns `half` of a unit; that is column sp_few_column of step sp_few_step of the list. */
SP_BOTH int sp_few_place(int span, int unit, int half, int q)
{
    return unit * span + (half * SP_FEW_LANES + q) * SP_FEW_CHUNK;
}
/* Where units do not cross blocks, all lanes have the same step, and the compiler sees it. */
SP_BOTH int sp_few_step(int width, int span, int unit, int half, int q)
{
    return width % span == 0 ? unit / (width / span) : sp_few_place(span, unit, half, q) / width;
}
SP_BOTH int sp_few_column(int width, int span, int unit, int half, int q)
{
    return width % span == 0 ? sp_few_place(span, unit % (width / span), half, q)
                             : sp_few_place(span, unit, half, q) % width;
}

#ifdef __CUDACC__
#define THREADS (WARPS * 32)
#define M_TILES (ROWS / SP_FEW_TILE)
#define HALVES  (SPAN / 32)
#define PARTS   (HEIGHT < ROWS ? ROWS / HEIGHT : 1) /* sp_few_parts, for sizes of arrays */
#define LINE    SP_FEW_LINE(TILES)
#define NOTHING (-1)

struct problem {
    const ELEMENT *values, *x, *bias, *residual;
    ELEMENT *y;
    const int *index;
    i64 x_step, y_step, residual_step;
    int rows, cols, down, right, blocks, tokens;
};

/* What a lane holds of a unit: rows g and g + 8 of each tile of rows, token g of each tile of tokens. */
struct unit {
    uint4 value[M_TILES][2][HALVES];
    uint4 x[TILES][HALVES];
};

/* ------------------------------------------------------------------ loads and products */
/* 16 bytes, or zeros where there is nothing. Volatile keeps them in the order in which they stand here, behind launch_wait. */
DEVICE uint4 load_once(const ELEMENT *from, bool there)
{
    uint4 v;
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\nmov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
                 "@p ld.global.L1::no_allocate.L2::256B.v4.b32 {%0, %1, %2, %3}, [%4];\n}"
                 : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
                 : "l"(from), "r"((int)there));
    return v;
}
DEVICE uint4 load_again(const ELEMENT *from, bool there)
{
    uint4 v;
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\nmov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
                 "@p ld.global.v4.b32 {%0, %1, %2, %3}, [%4];\n}"
                 : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
                 : "l"(from), "r"((int)there));
    return v;
}
DEVICE void mma(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." ETYPE "." ETYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* ------------------------------------------------------------------ the list */
struct steps {
    int column[SP_FEW_LIST];
    int block[PARTS][SP_FEW_LIST]; /* or NOTHING */
    int tally[WARPS];
};

/* Where this thread block works. */
struct piece {
    const int *step; /* of its strip in the index */
    int count, number, row;
};

/* Lists what THREADS steps from `from` on have for these rows behind the n that are listed; gives their new number. A step is loaded before the count is known:
 * the index has room for all that could be. */
DEVICE int list_more(const problem &job, const piece &here, steps &list, int from, int n)
{
    const int at = from + threadIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int words = HEIGHT < SP_STRIP ? 2 * SP_STRIP / HEIGHT : 2, first = sp_few_first(HEIGHT, ROWS, here.number);
    int column = NOTHING, block[PARTS];
    bool present = false;
    if (at < job.right) {
        const int *step = here.step + (i64)at * words;
        column = step[0];
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            block[p] = step[1 + first + p];
            if ((u32)block[p] >= (u32)job.blocks) block[p] = NOTHING;
            present |= block[p] != NOTHING;
        }
    }
    present = present && at < here.count && (u32)column < (u32)job.right;
    const u32 vote = __ballot_sync(~0u, present);
    if (lane == 0) list.tally[warp] = __popc(vote);
    __syncthreads();
    const int tally = lane < WARPS ? list.tally[lane] : 0, before = __reduce_add_sync(~0u, lane < warp ? tally : 0);
    const int to = n + before + __popc(vote & ((1u << lane) - 1));
    n += __reduce_add_sync(~0u, tally);
    if (present) {
        list.column[to] = column;
#pragma unroll
        for (int p = 0; p < PARTS; p++) list.block[p][to] = block[p];
    }
    __syncthreads();
    return n;
}

/* ------------------------------------------------------------------ a unit */
/* The step of the list that this lane reads, and the column in its block. Where units do not cross blocks, half h is that of half 0, and `shift` columns further:
 * one address serves all loads of a unit. */
struct place {
    int step, column, shift;
    bool there;
};
DEVICE place place_of(int unit, int half, int n)
{
    const int q = threadIdx.x % SP_FEW_LANES, from = WIDTH % SPAN == 0 ? 0 : half;
    place p;
    p.step = sp_few_step(WIDTH, SPAN, unit, from, q);
    p.column = sp_few_column(WIDTH, SPAN, unit, from, q);
    p.shift = (half - from) * 32;
    p.there = WIDTH % SPAN == 0 || p.step < n;
    if (!p.there) p.step = 0;
    return p;
}

DEVICE void fetch_values(const problem &job, const piece &here, const steps &list, int n, int number, unit &u)
{
    const int row = sp_few_top(HEIGHT, ROWS, here.number) + threadIdx.x % 32 / SP_FEW_LANES;
#pragma unroll
    for (int h = 0; h < HALVES; h++) {
        const place p = place_of(number, h, n);
#pragma unroll
        for (int m = 0; m < M_TILES; m++) {
            const int block = list.block[sp_few_part(HEIGHT, ROWS, m)][p.step];
            const bool there = p.there && (PARTS == 1 || block != NOTHING); /* a step of one part is listed because it is there */
            const ELEMENT *from = job.values + ((i64)block * (HEIGHT * WIDTH) + (row * WIDTH + p.column));
            from += sp_few_down(HEIGHT, ROWS, m) * WIDTH + p.shift;
            u.value[m][0][h] = load_once(from, there);
            u.value[m][1][h] = load_once(from + 8 * WIDTH, there);
        }
    }
}

DEVICE void fetch_x(const problem &job, const steps &list, int n, int number, unit &u)
{
    const int g = threadIdx.x % 32 / SP_FEW_LANES;
#pragma unroll
    for (int h = 0; h < HALVES; h++) {
        const place p = place_of(number, h, n);
        const int column = list.column[p.step] * WIDTH + p.column;
        const bool there = p.there && column + p.shift < job.cols;
        const ELEMENT *from = job.x + (g * job.x_step + column);
#pragma unroll
        for (int t = 0; t < TILES; t++)
            u.x[t][h] = load_again(from + 8 * t * job.x_step + p.shift, there && 8 * t + g < job.tokens);
    }
}

DEVICE void multiply(const unit &u, float (&sum)[M_TILES][TILES][4])
{
#pragma unroll
    for (int h = 0; h < HALVES; h++)
#pragma unroll
        for (int m = 0; m < M_TILES; m++) {
            const uint4 up = u.value[m][0][h], low = u.value[m][1][h];
#pragma unroll
            for (int t = 0; t < TILES; t++) mma(sum[m][t], up.x, low.x, up.y, low.y, u.x[t][h].x, u.x[t][h].y);
#pragma unroll
            for (int t = 0; t < TILES; t++) mma(sum[m][t], up.z, low.z, up.w, low.w, u.x[t][h].z, u.x[t][h].w);
        }
}

/* All units of a list that are this warp's: DEPTH of them are under way. */
DEVICE void take_units(const problem &job, const piece &here, const steps &list, int n, float (&sum)[M_TILES][TILES][4])
{
    const int units = sp_few_units(WIDTH, SPAN, n);
    unit ring[DEPTH];
#pragma unroll
    for (int d = 0; d < DEPTH; d++) {
        const int number = threadIdx.x / 32 + d * WARPS;
        if (number >= units) break;
        fetch_values(job, here, list, n, number, ring[d]);
        if (AHEAD) fetch_x(job, list, n, number, ring[d]);
    }
    for (int first = threadIdx.x / 32; first < units; first += DEPTH * WARPS) {
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            const int number = first + d * WARPS, next = number + DEPTH * WARPS;
            if (number >= units) break;
            if (!AHEAD) fetch_x(job, list, n, number, ring[d]);
            multiply(ring[d], sum);
            if (next >= units) continue;
            fetch_values(job, here, list, n, next, ring[d]);
            if (AHEAD) fetch_x(job, list, n, next, ring[d]);
        }
    }
}

/* ------------------------------------------------------------------ the end */
DEVICE void store(const problem &job, const piece &here, float *sums, const float (&sum)[M_TILES][TILES][4])
{
    const int g = threadIdx.x % 32 / SP_FEW_LANES, q = threadIdx.x % SP_FEW_LANES;
    float *mine = sums + threadIdx.x / 32 * ROWS * LINE;
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                mine[(SP_FEW_TILE * m + g + e / 2 * 8) * LINE + 8 * t + 2 * q + e % 2] = sum[m][t][e];
    __syncthreads();
    for (int i = threadIdx.x; i < ROWS * 8 * TILES; i += THREADS) {
        const int r = i % ROWS, token = i / ROWS, row = here.row + r;
        if (row >= job.rows || token >= job.tokens) continue;
        float v = 0.f;
#pragma unroll
        for (int w = 0; w < WARPS; w++) v += sums[(w * ROWS + r) * LINE + token];
        const float bias = job.bias ? wide(job.bias[row]) : 0.f;
        const float residual = job.residual ? wide(job.residual[token * job.residual_step + row]) : 0.f;
        job.y[token * job.y_step + row] = narrow(epilogue(v, bias, residual));
    }
}

/* Nothing that the index says leads outside of it: strips and counts are held in their bounds. */
DEVICE piece find_piece(const problem &job)
{
    const sp_side side = sp_side_across(HEIGHT, WIDTH, job.down, job.right);
    const int pieces = sp_few_strip(HEIGHT) / ROWS, position = blockIdx.x / pieces;
    const int strip = ORDERED ? max(0, min(job.index[side.order + position], side.strips - 1)) : position;
    piece p;
    p.count = min(job.index[side.count + strip], job.right);
    p.step = job.index + side.step + (i64)strip * side.cross * 2 * side.parts;
    p.number = blockIdx.x % pieces;
    p.row = strip * sp_few_strip(HEIGHT) + p.number * ROWS;
    return p;
}

KERNEL __launch_bounds__(THREADS, OCC) few(const __grid_constant__ problem job)
{
    extern __shared__ float sums[]; /* (WARPS, ROWS, LINE) */
    __shared__ steps list;
    float sum[M_TILES][TILES][4] = {};
#if PDL
    launch_wait();
#endif
    const piece here = find_piece(job);
    if (here.row >= job.rows) return;
    int from = 0, n;
    do { /* at least once: the first steps are under way before their number is there */
        n = 0;
        do {
            n = list_more(job, here, list, from, n);
            from += THREADS;
        } while (from < here.count && n + THREADS <= SP_FEW_LIST);
        take_units(job, here, list, n, sum);
        if (from < here.count) __syncthreads(); /* all have read the list that is written next */
    } while (from < here.count);
#if PDL
    launch_next(); /* not before: blocks that wait take the place of those that work */
#endif
    store(job, here, sums, sum);
}
#endif
