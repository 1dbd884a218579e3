/* half.cu: y(t, i) = sum over j of S(i, j) x(t, j) where S has at most 2 of 4 neighbours along j (2:4). sm_90a: wgmma.sp multiplies the two, and takes from x what they meet.
 *
 *   compress   a weight (rows, cols) to tiles; once for each change of the weight. Reads it once.
 *   half       the product
 *
 * A tile is 64 rows x 64 columns in 4608 bytes: what stays, 64 lines of 32 elements, in the order of shared memory (64 bytes, swizzled: chunk c of line r at
 * c ^ (r >> 1 & 3)), then 128 words that say where it was:
 *
 *     word q     rows 16 * (q / 32) + q % 32 / 4 (low 16 bits) and 8 further (high 16 bits), columns 16 * (q % 4) .. + 15: four groups of 4 bits, first | second << 2
 *     example    a b c d = . 5 . 7 : elements 5 7, bits 1 | 3 << 2
 *
 * Thread q of a warpgroup hands word q to wgmma.sp: lanes 0, 1 of four serve the first 32 columns (selector 0), lanes 2, 3 the others (selector 1).
 * So the columns that thread q of `compress` reads, 16 of two rows, are a chunk of each row and this word.
 *
 *     tiles      [group of 2 strips][step of 64 columns][strip]: 9216 bytes of a step are one copy
 *     stage      x: TILE tokens x 64 columns | 2 tiles
 *     block      2 warpgroups x 64 rows x TILE tokens, and a warp that fetches; STAGES stages
 *     cluster    SHARE blocks with the same tokens and different rows: each fetches its part of x for all
 *     items      bands of BAND clusters of rows, all tokens of a band before the next: tiles and x stay in L2
 *     y          sums through the words, turned by stmatrix into 64 tokens x 64 rows, stored by TMA, which drops what is outside
 *
 * Rows are filled up to 256, columns to 128, with tiles of zeros: sp_half_strips, sp_half_steps.
 * Parameters: DTYPE 0, 1; of the product WORDS ..., TILE 256 | 128, STAGES, SHARE 1 | 2, BAND, PDL.
 *
 * The first part is C too.
 */
#define SP_HALF_VALUES 4096 /* bytes of a tile: elements */
#define SP_HALF_TILE   4608 /* and words */
#define SP_HALF_GROUP  2    /* strips of a block: warpgroups */
#define SP_HALF_OUT    8192 /* bytes in which a warpgroup turns 64 tokens */
#define SP_HALF_ALIGN  1024
#define SP_HALF_TAIL   16     /* bytes after the tiles: 0 but for the last word, which is 1 where four neighbours had more than two */
#define SP_HALF_SIZE   0x7fff /* of the bits of an f16 or bf16: its magnitude, which they order; NaN is the largest */

SP_BOTH int sp_half_strips(int rows)
{
    return (rows + 4 * SP_STRIP - 1) / (4 * SP_STRIP) * 4;
}
SP_BOTH int sp_half_steps(int cols)
{
    return (cols + 2 * SP_STRIP - 1) / (2 * SP_STRIP) * 2;
}
/* Dynamic shared memory of the product. */
#define SP_HALF_STAGE(tile)          ((tile)*128 + SP_HALF_GROUP * SP_HALF_TILE)
#define SP_HALF_SHARED(tile, stages) (SP_HALF_ALIGN + (stages)*SP_HALF_STAGE(tile) + SP_HALF_GROUP * SP_HALF_OUT)

/* Two of four neighbours, those of the largest magnitude, in order: where there are at most two, all. */
typedef struct sp_half_two {
    unsigned kept;  /* the elements as bits, the first in the low half */
    unsigned where; /* first | second << 2; always first < second */
    int fits;       /* 0: there are more than two */
} sp_half_two;
SP_BOTH sp_half_two sp_half_choose(const unsigned short v[4])
{
    sp_half_two two = {0, 0, 0};
    int taken = 0, there = 0;
    for (int i = 0; i < 4; i++) {
        const int size = v[i] & SP_HALF_SIZE;
        int larger = 0; /* of two that are alike the first counts as larger */
        for (int k = 0; k < 4; k++)
            larger += (v[k] & SP_HALF_SIZE) > size || ((v[k] & SP_HALF_SIZE) == size && k < i);
        there += size != 0;
        if (larger >= 2) continue;
        two.kept |= (unsigned)v[i] << 16 * taken;
        two.where |= (unsigned)i << 2 * taken;
        taken++;
    }
    two.fits = there <= 2;
    return two;
}
/* The upper of the two rows of word q; the other is 8 further. */
SP_BOTH int sp_half_row(int q)
{
    return q / 32 * 16 + q % 32 / 4;
}
/* Which tile of all the one of a strip and a step is. */
SP_BOTH long long sp_half_tile(int strip, int step, int steps)
{
    return ((long long)(strip / SP_HALF_GROUP) * steps + step) * SP_HALF_GROUP + strip % SP_HALF_GROUP;
}
/* Byte of a tile where chunk c (16 columns of S) of line r lies. */
SP_BOTH int sp_half_place(int r, int c)
{
    return r * 64 + ((c ^ (r >> 1 & 3)) << 4);
}

#ifdef __CUDACC__
#define WORDS_OF_A_TILE 128
#define COLUMNS         16 /* of a thread in compress */

/* ------------------------------------------------------------------ compress */
struct weight {
    const ELEMENT *from;
    const u8 *keep; /* (rows, cols), 0: it is gone; or NULL */
    u8 *to;
    int *over; /* gets 1 where four neighbours have more than two; is 0 before */
    i64 step;
    int rows, cols;
};

/* 16 columns of a row, zeros where there is nothing. */
DEVICE void read_row(const weight &w, int row, int column, u16 (&v)[COLUMNS])
{
    const ELEMENT *from = w.from + row * w.step + column;
    const u8 *keep = w.keep ? w.keep + (i64)row * w.cols + column : nullptr;
    if (row < w.rows && column + COLUMNS <= w.cols && (u64)from % 16 == 0) {
        const uint4 a = *(const uint4 *)from, b = *(const uint4 *)(from + 8);
        const u32 pair[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
        for (int i = 0; i < COLUMNS; i++) v[i] = (u16)(pair[i / 2] >> 16 * (i % 2));
    } else {
#pragma unroll
        for (int i = 0; i < COLUMNS; i++) v[i] = row < w.rows && column + i < w.cols ? from[i] : 0;
    }
#pragma unroll
    for (int i = 0; i < COLUMNS; i++)
        if (keep && row < w.rows && column + i < w.cols && !keep[i]) v[i] = 0;
}

/* 8 elements and 16 bits of where they were; false: some four have more than two. */
DEVICE bool halve(const u16 (&v)[COLUMNS], uint4 &kept, u32 &where)
{
    u32 pair[4];
    bool fits = true;
    where = 0;
#pragma unroll
    for (int g = 0; g < 4; g++) {
        const sp_half_two two = sp_half_choose(v + 4 * g);
        pair[g] = two.kept;
        where |= two.where << 4 * g;
        fits = fits && two.fits;
    }
    kept = make_uint4(pair[0], pair[1], pair[2], pair[3]);
    return fits;
}

/* A block of 128 threads makes a tile. */
KERNEL __launch_bounds__(WORDS_OF_A_TILE) compress(const __grid_constant__ weight w)
{
    const int steps = sp_half_steps(w.cols), q = threadIdx.x, r = sp_half_row(q);
    const int strip = blockIdx.x / steps, step = blockIdx.x % steps;
    u8 *to = w.to + sp_half_tile(strip, step, steps) * SP_HALF_TILE;
    u32 word = 0;
    bool fits = true;
#pragma unroll
    for (int lower = 0; lower < 2; lower++) {
        u16 v[COLUMNS];
        uint4 kept;
        u32 where;
        read_row(w, strip * SP_STRIP + r + 8 * lower, step * SP_STRIP + COLUMNS * (q % 4), v);
        fits = halve(v, kept, where) && fits;
        *(uint4 *)(to + sp_half_place(r + 8 * lower, q % 4)) = kept;
        word |= where << 16 * lower;
    }
    ((u32 *)(to + SP_HALF_VALUES))[q] = word;
    if (!fits) *w.over = 1;
}

#if defined TILE
/* ------------------------------------------------------------------ the product */
#define CONSUMERS   (SP_HALF_GROUP * 128)
#define THREADS     (CONSUMERS + 128)
#define STAGE       SP_HALF_STAGE(TILE)
#define X_BYTES     (TILE * 128)
#define TURNED      64 /* tokens that are turned at once */
#define FETCH_KEEPS 40 /* registers: 40 + 2 * 232 of the 504 that three warpgroups have */
#define SUMS_TAKE   232

struct problem {
    const u8 *tiles;
    const ELEMENT *bias, *residual;
    i64 residual_step;
    int rows, tokens, groups, steps; /* groups: of 2 strips, a multiple of SHARE */
};

#define WGMMA_HALF(COLUMNS_, SUMS, REGISTERS, A, B, WHERE, MORE, SELECT, ...)                                                    \
    template <int S> DEVICE void wgmma_half(float (&d)[SUMS], u64 a, u64 b, u32 where, int more)                                 \
    {                                                                                                                            \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " MORE ", 0;\nwgmma.mma_async.sp.sync.aligned.m64n" #COLUMNS_             \
                     "k32.f32." ETYPE "." ETYPE " {" REGISTERS "}, " A ", " B ", " WHERE ", " SELECT ", p, 1, 1, 0, 0;\n}"        \
                     : __VA_ARGS__                                                                                               \
                     : "l"(a), "l"(b), "r"(where), "r"(more), "n"(S));                                                           \
    }
WGMMA_HALF(128, 64, R64, "%64", "%65", "%66", "%67", "%68", D32(0), D32(32))
WGMMA_HALF(256, 128, R128, "%128", "%129", "%130", "%131", "%132", D32(0), D32(32), D32(64), D32(96))

/* Items of a cluster, and what this block of it has. */
struct item {
    int group, token;
};
DEVICE int items_of(const problem &job)
{
    return job.groups / SHARE * ((job.tokens + TILE - 1) / TILE);
}
DEVICE item item_of(const problem &job, int number, u32 rank)
{
    const int across = (job.tokens + TILE - 1) / TILE, down = job.groups / SHARE;
    const int band = number / (BAND * across), high = min(BAND, down - band * BAND), in = number - band * BAND * across;
    item i;
    i.group = (band * BAND + in % high) * SHARE + (int)rank;
    i.token = in / high * TILE;
    return i;
}

/* Where a warp stands in the ring. */
struct ring {
    u32 base, full, empty; /* stages; barriers */
    int stage;
    u32 phase;
};
DEVICE void advance(ring &r)
{
    if (++r.stage < STAGES) return;
    r.stage = 0;
    r.phase ^= 1;
}
/* This warp needs the stage no more; all blocks that write into it hear so. */
DEVICE void release(const ring &r, int stage, int lane)
{
    if (SHARE > 1) {
        if (lane < SHARE) barrier_arrive_at(r.empty + 8 * stage, lane);
    } else if (lane == 0) {
        barrier_arrive(r.empty + 8 * stage);
    }
}

DEVICE void fetch_step(const problem &job, const map *x, const item &at, ring &r, int k, u32 rank)
{
    const u32 to = r.base + r.stage * STAGE, full = r.full + 8 * r.stage;
    const u8 *tiles = job.tiles + ((i64)at.group * job.steps + k) * (SP_HALF_GROUP * SP_HALF_TILE);
    barrier_wait(r.empty + 8 * r.stage, r.phase ^ 1);
    barrier_expect(full, STAGE);
    if (SHARE > 1)
        box_load_to(to + rank * (X_BYTES / SHARE), x, k * SP_STRIP, at.token + (int)rank * (TILE / SHARE), full, (1 << SHARE) - 1);
    else
        box_load(to, x, k * SP_STRIP, at.token, full);
    bulk_load(to + X_BYTES, tiles, SP_HALF_GROUP * SP_HALF_TILE, full);
    advance(r);
}

/* All steps of an item. The tensor core reads `where` late: two registers in turn, and each is held until its group is done. */
DEVICE void multiply(const problem &job, ring &r, int group, int lane, float (&sum)[TILE / 2])
{
    u32 where[2] = {0, 0};
    int held = -1;
    for (int k = 0; k < job.steps; k += 2) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const u32 x = r.base + r.stage * STAGE, tile = x + X_BYTES + group * SP_HALF_TILE;
            barrier_wait(r.full + 8 * r.stage, r.phase);
            asm volatile("ld.shared.u32 %0, [%1];" : "=r"(where[h]) : "r"(tile + SP_HALF_VALUES + threadIdx.x % 128 * 4) : "memory");
            const u64 a = tile_along_k<64>(tile), b = tile_along_k<128>(x);
            wgmma_begin();
            wgmma_half<0>(sum, a, b, where[h], k + h);
            wgmma_half<1>(sum, a + 2, b + 4, where[h], 1); /* 32 columns further: 32 bytes of what stays, 64 of x */
            wgmma_close();
            wgmma_wait<1>();
            asm volatile("" ::"r"(where[h ^ 1]));
            if (held >= 0) release(r, held, lane);
            held = r.stage;
            advance(r);
        }
    }
    wgmma_wait<0>();
    asm volatile("" ::"r"(where[0]), "r"(where[1]));
    release(r, held, lane);
}

/* Bias of the two rows that a thread has. */
struct biases {
    float up, low;
};
DEVICE biases biases_of(const problem &job, int row)
{
    biases b;
    b.up = job.bias && row < job.rows ? wide(job.bias[row]) : 0.f;
    b.low = job.bias && row + 8 < job.rows ? wide(job.bias[row + 8]) : 0.f;
    return b;
}
/* The words, on the four sums of rows `row`, row + 8 and tokens `token`, token + 1. */
DEVICE void finish(const problem &job, const biases &bias, int row, int token, float *sum)
{
#pragma unroll
    for (int e = 0; WORDS > 0 && e < 4; e++) {
        const int t = token + e % 2, r = row + e / 2 * 8;
        const bool there = job.residual && t < job.tokens && r < job.rows;
        sum[e] = epilogue(sum[e], e / 2 ? bias.low : bias.up, there ? wide(job.residual[t * job.residual_step + r]) : 0.f);
    }
}

/* To y, 64 tokens at a time, through the warpgroup's buffer. */
DEVICE void store(const problem &job, const map *y, u32 buffer, int strip, int token, int group, float (&sum)[TILE / 2])
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, row = strip * SP_STRIP + 16 * warp + lane / 4;
    const bool first = threadIdx.x % 128 == 0;
    const biases bias = biases_of(job, row);
#pragma unroll
    for (int c = 0; c < TILE / TURNED; c++) {
        if (first) stores_read<0>();
        threads_meet(1 + group, 128);
#pragma unroll
        for (int i = 0; i < TURNED / 16; i++) {
            float *d = sum + (c * (TURNED / 8) + 2 * i) * 4;
            const u32 line = 16 * i + (lane >> 4) * 8 + (lane & 7), chunk = 2 * warp + (lane >> 3 & 1);
            finish(job, bias, row, token + c * TURNED + 16 * i + 2 * (lane % 4), d);
            finish(job, bias, row, token + c * TURNED + 16 * i + 8 + 2 * (lane % 4), d + 4);
            stmatrix_turned(buffer + line * 128 + ((chunk ^ (line & 7)) << 4), narrow2(d[0], d[1]), narrow2(d[2], d[3]),
                            narrow2(d[4], d[5]), narrow2(d[6], d[7]));
        }
        written();
        threads_meet(1 + group, 128);
        if (first) {
            box_store(y, strip * SP_STRIP, token + c * TURNED, buffer);
            stores_close();
        }
    }
}

DEVICE void meet()
{
    if (SHARE > 1)
        cluster_meet();
    else
        __syncthreads();
}

KERNEL __launch_bounds__(THREADS, 1) half(const __grid_constant__ map x, const __grid_constant__ map y, const __grid_constant__ problem job)
{
    extern __shared__ u8 raw[];
    __shared__ __align__(8) u64 barriers[2 * STAGES];
    ring r;
    r.base = (shared_address(raw) + SP_HALF_ALIGN - 1) & ~(u32)(SP_HALF_ALIGN - 1);
    r.full = shared_address(barriers);
    r.empty = r.full + 8 * STAGES;
    r.stage = 0;
    r.phase = 0;
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0), lane = threadIdx.x % 32;
    const u32 rank = SHARE > 1 ? cluster_rank() : 0;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            barrier_make(r.full + 8 * s, 1);
            barrier_make(r.empty + 8 * s, SHARE * SP_HALF_GROUP * 4); /* every warp that multiplies, of every block of the cluster */
        }
        barriers_made();
    }
    meet();
#if PDL
    launch_wait();
#endif
    const int items = items_of(job), first = blockIdx.x / SHARE, apart = gridDim.x / SHARE;
    if (group == SP_HALF_GROUP) {
        registers_give<FETCH_KEEPS>();
        if (threadIdx.x == CONSUMERS) {
            for (int n = first; n < items; n += apart) {
                const item at = item_of(job, n, rank);
                for (int k = 0; k < job.steps; k++) fetch_step(job, &x, at, r, k, rank);
            }
#if PDL
            launch_next(); /* not before: blocks that wait take the place of those that work */
#endif
        }
    } else {
        registers_take<SUMS_TAKE>();
        const u32 buffer = r.base + STAGES * STAGE + group * SP_HALF_OUT;
        float sum[TILE / 2];
        for (int n = first; n < items; n += apart) {
            const item at = item_of(job, n, rank);
            const int strip = at.group * SP_HALF_GROUP + group;
            multiply(job, r, group, lane, sum);
            store(job, &y, buffer, strip, at.token, group, sum);
        }
        if (threadIdx.x % 128 == 0) stores_done();
    }
    meet(); /* a block of the cluster may still write here */
}
#endif
#endif
