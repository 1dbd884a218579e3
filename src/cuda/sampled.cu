/* sampled.cu: the gradient of values, at the blocks that exist: values(b, i, j) = scale * sum over tokens t of a(t, row(b) + i) * c(t, col(b) + j).
 *
 * a is (tokens, rows), c (tokens, cols). Both lie along their features, which are the outer sides of this product, and wgmma reads them so: nothing is
 * transposed. An item (sampled.h) is 64 rows for each warpgroup x up to 256 columns that are gathered from wherever the strip has blocks:
 *
 *                              boxes of c: KT tokens x BOX columns each, side by side          A stage, KT tokens of all
 *                               [ step 0 ][ step 1 ][ step 2 ][ step 3 ]                        +----------------------+
 *      64 rows    +--------+   +---------------------------------------+                        | a: NWG tiles KT x 64 |
 *      of each    | a      |   | sums in registers: 64 x 256 f32 of    |                        +----------------------+
 *      warpgroup  | KT x 64|   | each warpgroup, 128 in a thread       |                        | c: 256 / BOX boxes   |
 *                 +--------+   +---------------------------------------+                        +----------------------+
 *
 *      producer   a warp: its lanes load one box each       wait(empty) -> a, c by TMA -> full         ST stages in a ring
 *      consumers  NWG warpgroups                            wait(full) -> wgmma -> empty (one behind, so that two are in flight)
 *      the end    64 columns at a time through shared memory (OB buffers) and by TMA into values; a part of an item leaves f32 sums in scratch
 *
 * Items with few columns run narrower products (64 or 128 columns). Boxes that an item has not are not loaded: what lies there multiplies into sums that
 * nobody stores. Blocks that are absent (-1), or that no array has, are not stored.
 *
 * Entries: sample, one block of threads for each crew; join, any number of blocks of 256 threads, after it: adds the parts of items that were cut.
 *
 * Parameters: DTYPE 0 f16, 1 bf16; HEIGHT, WIDTH of a block; NWG 1 or 2 (2: HEIGHT is a multiple of 128); KT 16, 32, 64 tokens of a stage; ST stages; OB;
 * OCC blocks of threads on a multiprocessor; MASKED 1: elements may not exist (keep, or past the edge of the matrix): zeros are stored there.
 *
 * Shared memory, dynamic: 1024 to align, ST stages, NWG * OB buffers of 64 x 64 elements (sampled.c).
 */
#define GROUP      128 /* threads of a warpgroup */
#define WARP       32
#define ALL        0xffffffffu
#define ROWS       64 /* of a warpgroup */
#define COLUMNS    SP_SAMPLED_COLUMNS
#define SUMS       (COLUMNS / 2) /* of a thread */
#define K          16            /* tokens of a wgmma */
#define PARTS      (HEIGHT < ROWS ? ROWS / HEIGHT : 1)
#define PART       (ROWS / PARTS) /* rows of a block in a strip */
#define BOX        (WIDTH < SP_SAMPLED_BOX ? WIDTH : SP_SAMPLED_BOX)
#define LINE       (BOX * 2) /* bytes */
#define BOXES      (COLUMNS / BOX)
#define A_LINE     (ROWS * 2)
#define A_BYTES    (KT * A_LINE)
#define BOX_BYTES  (KT * LINE)
#define STAGE      (NWG * A_BYTES + BOXES * BOX_BYTES)
#define OUT        64 /* columns that are stored at once */
#define OUT_BOXES  (OUT / BOX)
#define OUT_BYTES  (ROWS * OUT * 2)
#define OUT_STORES (OUT_BOXES * PARTS)
#define LEAST      (SP_SAMPLED_LEAST / KT)
#define SLOT       (ROWS * COLUMNS / 4) /* float4 of one warpgroup */
#define ALIGNED    1024
/* setmaxnreg counts for whole warpgroups: the producer is one where it is used. */
#define THREADS        (GROUP * NWG + (OCC == 1 ? GROUP : WARP))
#define PRODUCER_KEEPS 56
#define CONSUMER_TAKES 224

/* ------------------------------------------------------------------ what an item is */
DEVICE sp_sampling sampling(const sp_sampled &job)
{
    return sp_sampling_of(HEIGHT, WIDTH, job.down, job.right, NWG);
}
DEVICE sp_share share_of(const sp_sampled &job)
{
    const sp_sampling s = sampling(job);
    return sp_share_of(sp_sampled_items(&s, job.index[s.side.item + s.side.strips]), job.steps, job.crews, LEAST);
}

/* The last strip whose runs begin at `run` or before: a whole warp looks, in 32 places at a time. */
DEVICE int strip_of(const int *begin, int strips, int run, int lane)
{
    int low = 0, high = strips;
    while (high - low > 1) {
        const int apart = (high - low + WARP - 1) / WARP, at = low + lane * apart;
        const u32 there = __ballot_sync(ALL, lane == 0 || (at < high && begin[at] <= run));
        low += (WARP - 1 - __clz(there)) * apart;
        high = low + apart < high ? low + apart : high;
    }
    return low;
}
DEVICE sp_tile tile_of(const sp_sampled &job, int item, int lane)
{
    const sp_sampling s = sampling(job);
    const int strip = strip_of(job.index + s.side.item, s.side.strips, sp_sampled_run(&s, item), lane);
    return sp_tile_of(&s, item, strip, job.index[s.side.item + strip], job.index[s.side.count + strip]);
}

/* Of box b of a tile: its line of blocks; its block for one part of the strip, -1: nothing is stored there. */
DEVICE int line_of(const sp_sampled &job, const sp_tile &t, int b)
{
    const sp_sampling s = sampling(job);
    return b < t.boxes ? job.index[sp_tile_step(&s, &t, b)] : 0;
}
DEVICE int block_of(const sp_sampled &job, const sp_tile &t, int b, int part)
{
    const sp_sampling s = sampling(job);
    const int block = b < t.boxes ? job.index[sp_tile_step(&s, &t, b) + 1 + part] : -1;
    return (u32)block < (u32)job.blocks ? block : -1;
}

/* ------------------------------------------------------------------ sums to elements */
/* Where the elements of one row of a box are: from its first one, which is element `first` of all values. */
struct place {
    i64 first;  /* -1: nothing is stored */
    int inside; /* so many are in the matrix; the others, if any, are 0 */
};
/* `row`: of the item; rows of one warp are of one part of the strip. */
DEVICE place place_of(const sp_sampled &job, const sp_tile &t, int b, int row)
{
    const sp_sampling s = sampling(job);
    const int block = block_of(job, t, b, row / PART % PARTS), along = sp_tile_along(&s, &t, b);
    const int i = PARTS > 1 ? row % PART : t.down + row;
    place p;
    p.first = block < 0 ? -1 : ((i64)block * HEIGHT + i) * WIDTH + along;
    p.inside = t.row + row < job.rows ? job.cols - line_of(job, t, b) * WIDTH - along : 0;
    return p;
}
/* Bits of a pair of elements that exist: `keep` has a byte for each, `inside` as above, counted from the first. */
DEVICE u32 existing(u32 keep, int inside)
{
    return (keep & 0xff && inside > 0 ? 0xffffu : 0) | (keep >> 8 && inside > 1 ? 0xffff0000u : 0);
}

/* ------------------------------------------------------------------ sample */
/* The chunk of 16 bytes of a line, as TMA swizzles it (hopper.cuh). */
DEVICE u32 swizzled(u32 row, u32 chunk)
{
    return row * LINE + ((chunk ^ (LINE == 128 ? row & 7 : LINE == 64 ? row >> 1 & 3 : row >> 2 & 1)) << 4);
}

/* The compiler no longer knows what it is: what follows from it is not kept in registers from one use to the next. */
DEVICE void forget(int &x)
{
    asm volatile("" : "+r"(x));
}

struct ring {
    u32 tiles, full, empty; /* in shared memory */
    int stage;
    u32 phase;
};
DEVICE void next(ring &r)
{
    if (++r.stage == ST) {
        r.stage = 0;
        r.phase ^= 1;
    }
}

DEVICE void produce(const sp_sampled &job, const map *a, const map *c, const sp_share &share, ring r, int lane)
{
    const sp_sampling s = sampling(job);
    sp_piece piece;
    for (int i = 0; sp_share_piece(&share, blockIdx.x, i, &piece); i++) {
        const sp_tile t = tile_of(job, piece.item, lane);
        const int from_end = WARP - 1 - lane; /* the last lanes bring a */
        const int column = line_of(job, t, lane) * WIDTH + sp_tile_along(&s, &t, lane);
        for (int k = 0; k < piece.steps; k++) {
            const u32 to = r.tiles + r.stage * STAGE, full = r.full + 8 * r.stage;
            const int token = (piece.first + k) * KT;
            if (lane == 0) {
                barrier_wait(r.empty + 8 * r.stage, r.phase ^ 1);
                barrier_expect(full, NWG * A_BYTES + t.boxes * BOX_BYTES);
            }
            __syncwarp();
            if (lane < t.boxes)
                box_load(to + NWG * A_BYTES + lane * BOX_BYTES, c, column, token, full);
            else if (from_end < NWG)
                box_load(to + from_end * A_BYTES, a, t.row + ROWS * from_end, token, full);
            __syncwarp();
            next(r);
        }
    }
}

/* The sums of the first 2 * N columns over so many stages. */
template <int N> DEVICE void multiply(float (&sum)[SUMS], ring &r, int steps, int wg, int lane)
{
    float(&d)[N] = *(float(*)[N])sum;
    int last = 0;
    for (int k = 0; k < steps; k++) {
        const u32 at = r.tiles + r.stage * STAGE;
        barrier_wait(r.full + 8 * r.stage, r.phase);
        wgmma_begin();
        const u64 a = tile_along_mn<A_LINE>(at + wg * A_BYTES, 0), c = tile_along_mn<LINE>(at + NWG * A_BYTES, BOX_BYTES);
#pragma unroll
        for (int j = 0; j < KT / K; j++)
            wgmma<1, 1>(d, a + j * (K * A_LINE >> 4), c + j * (K * LINE >> 4), k | j);
        wgmma_close();
        wgmma_wait<1>();
        if (k > 0 && lane == 0) barrier_arrive(r.empty + 8 * last);
        last = r.stage;
        next(r);
    }
    wgmma_wait<0>();
    wgmma_hold(d);
    if (lane == 0) barrier_arrive(r.empty + 8 * last);
}

/* 64 columns of a warpgroup out of shared memory, with zeros where nothing is: 16 bytes at a time. */
DEVICE void store_existing(const sp_sampled &job, const sp_tile &t, int g, u32 buffer, int wg)
{
    enum { CHUNK = 8, OF_ROW = OUT / CHUNK, OF_BOX = BOX / CHUNK }; /* elements; chunks */
    int n = threadIdx.x % GROUP;
    forget(n);
#pragma unroll 1
    for (; n < ROWS * OF_ROW; n += GROUP) {
        const int row = n / OF_ROW, box = n % OF_ROW / OF_BOX, chunk = n % OF_BOX;
        const place p = place_of(job, t, g * OUT_BOXES + box, ROWS * wg + row);
        if (p.first < 0) continue;
        const int at = chunk * CHUNK;
        uint2 keep = make_uint2(0x01010101, 0x01010101);
        if (job.keep) keep = *(const uint2 *)(job.keep + p.first + at);
        uint4 v = shared_load(buffer + box * ROWS * LINE + swizzled(row, chunk));
        v.x &= existing(keep.x & 0xffff, p.inside - at);
        v.y &= existing(keep.x >> 16, p.inside - at - 2);
        v.z &= existing(keep.y & 0xffff, p.inside - at - 4);
        v.w &= existing(keep.y >> 16, p.inside - at - 6);
        *(uint4 *)((ELEMENT *)job.values + p.first + at) = v;
    }
}

/* The same where everything exists: a lane of one warp stores each box of each part. */
DEVICE void store_boxes(const sp_sampled &job, const map *values, const sp_tile &t, int g, u32 buffer, int wg, int lane)
{
    const sp_sampling s = sampling(job);
    const int box = lane / PARTS, part = lane % PARTS;
    const int block = lane < OUT_STORES ? block_of(job, t, g * OUT_BOXES + box, part) : -1;
    if (block >= 0)
        box_store(values, sp_tile_along(&s, &t, g * OUT_BOXES + box), block * HEIGHT + t.down + ROWS * wg,
                  buffer + (box * ROWS + part * PART) * LINE);
    stores_close();
}

/* To values, 64 columns at a time. */
DEVICE void store(const sp_sampled &job, const map *values, const sp_tile &t, float (&sum)[SUMS], u32 out, int wg, int warp,
                  int lane)
{
    const int meeting = 1 + wg;
    const float scale = job.scale;
#pragma unroll
    for (int g = 0; g < COLUMNS / OUT; g++) {
        if (g * OUT_BOXES >= t.boxes) break;
        forget(lane); /* addresses are made anew: registers are for sums */
        const u32 buffer = out + g % OB * OUT_BYTES;
        if (!MASKED && warp == 0) {
            if (g == 0)
                stores_read<0>(); /* the item before may have ended in either buffer */
            else
                stores_read<OB - 1>();
        }
        threads_meet(meeting, GROUP);
#pragma unroll
        for (int q = 0; q < OUT / 16; q++) { /* 16 columns */
            const float *d = sum + g * (OUT / 2) + 8 * q;
            stmatrix(buffer + 16 * q / BOX * ROWS * LINE + swizzled(16 * warp + (lane & 15), 16 * q % BOX / 8 + (lane >> 4)),
                     narrow2(scale * d[0], scale * d[1]), narrow2(scale * d[2], scale * d[3]),
                     narrow2(scale * d[4], scale * d[5]), narrow2(scale * d[6], scale * d[7]));
        }
        if (!MASKED) written();
        threads_meet(meeting, GROUP);
        if (MASKED)
            store_existing(job, t, g, buffer, wg);
        else if (warp == 0)
            store_boxes(job, values, t, g, buffer, wg, lane);
    }
}

/* To scratch, as they are. */
DEVICE void leave(const sp_sampled &job, float (&sum)[SUMS], int slot, int wg, int thread)
{
    float4 *to = (float4 *)job.scratch + ((u64)slot * NWG + wg) * SLOT + thread;
#pragma unroll
    for (int q = 0; q < SUMS / 4; q++)
        __stcg(to + q * GROUP, make_float4(sum[4 * q], sum[4 * q + 1], sum[4 * q + 2], sum[4 * q + 3]));
}

DEVICE void consume(const sp_sampled &job, const map *values, const sp_share &share, sp_tile *tiles, ring r, u32 out, int wg)
{
    const int thread = threadIdx.x % GROUP, warp = thread / WARP, lane = thread % WARP;
    sp_tile &t = tiles[threadIdx.x / WARP]; /* the warp's own */
    sp_piece piece;
    for (int i = 0; sp_share_piece(&share, blockIdx.x, i, &piece); i++) {
        const sp_tile found = tile_of(job, piece.item, lane);
        __syncwarp();
        if (lane == 0) t = found;
        __syncwarp();
        const int columns = t.boxes * BOX;
        float sum[SUMS]; /* here, so that its registers are free while items are found */
        if (columns <= 64)
            multiply<32>(sum, r, piece.steps, wg, lane);
        else if (columns <= 128)
            multiply<64>(sum, r, piece.steps, wg, lane);
        else
            multiply<128>(sum, r, piece.steps, wg, lane);
        if (piece.slot < 0)
            store(job, values, t, sum, out, wg, warp, lane);
        else
            leave(job, sum, piece.slot, wg, thread);
    }
    if (warp == 0) stores_done();
}

KERNEL __launch_bounds__(THREADS, OCC)
    sample(const __grid_constant__ map a, const __grid_constant__ map c, const __grid_constant__ map values,
           const __grid_constant__ sp_sampled job)
{
    extern __shared__ u8 raw[];
    __shared__ __align__(8) u64 barriers[2 * ST];
    /* Registers are for sums. */
    __shared__ sp_share share;
    __shared__ sp_tile tiles[NWG * GROUP / WARP];
    const u32 base = (shared_address(raw) + ALIGNED - 1) & ~(u32)(ALIGNED - 1);
    const int wg = __shfl_sync(ALL, threadIdx.x / GROUP, 0);
    const ring r = {base, shared_address(barriers), shared_address(barriers) + 8 * ST, 0, 0};
    if (threadIdx.x == 0) {
        for (int i = 0; i < ST; i++) {
            barrier_make(r.full + 8 * i, 1);
            barrier_make(r.empty + 8 * i, NWG * GROUP / WARP);
        }
        barriers_made();
        map_prefetch(&a);
        map_prefetch(&c);
    }
    launch_wait();
    if (threadIdx.x == 0) share = share_of(job);
    __syncthreads();
    if (wg == NWG) {
#if OCC == 1
        registers_give<PRODUCER_KEEPS>();
#endif
        if (threadIdx.x < GROUP * NWG + WARP) produce(job, &a, &c, share, r, threadIdx.x % WARP);
    } else {
#if OCC == 1
        registers_take<CONSUMER_TAKES>();
#endif
        consume(job, &values, share, tiles, r, base + ST * STAGE + wg * OB * OUT_BYTES, wg);
        launch_next(); /* by those who worked: blocks that wait take the place of those that work */
    }
}

/* ------------------------------------------------------------------ join */
#define EACH        8 /* columns of a unit: two rows of two for each thread of a warpgroup */
#define UNITS       (COLUMNS / EACH)
#define JOIN_GROUPS 2 /* warpgroups of a block */

DEVICE void store_pair(const sp_sampled &job, const place &p, int at, u32 pair)
{
#if MASKED
    pair &= existing(job.keep ? *(const u16 *)(job.keep + p.first + at) : 0x0101, p.inside - at);
#endif
    *(u32 *)((ELEMENT *)job.values + p.first + at) = pair;
}

/* The parts of an item are added in the order of tokens; TOGETHER of them are under way at a time. */
#define TOGETHER 4
DEVICE float4 added(const sp_share &share, int r, const float4 *from)
{
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int first = 0, more = 1; more; first += TOGETHER) {
        float4 x[TOGETHER];
        int n = 0;
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            sp_piece piece;
            more = more && sp_share_part(&share, r, first + i, &piece);
            if (more) {
                x[i] = __ldcg(from + (u64)piece.slot * NWG * SLOT);
                n++;
            }
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            if (i >= n) break;
            v.x += x[i].x;
            v.y += x[i].y;
            v.z += x[i].z;
            v.w += x[i].w;
        }
    }
    return v;
}

/* Where sums go is worked out ahead of the wait: the kernel before has waited for what wrote the index, and does not write it. */
KERNEL __launch_bounds__(JOIN_GROUPS *GROUP) join(const __grid_constant__ sp_sampled job)
{
    const sp_share share = share_of(job);
    const int thread = threadIdx.x % GROUP, lane = thread % WARP, group = JOIN_GROUPS * blockIdx.x + threadIdx.x / GROUP;
    const int units = share.cut * NWG * UNITS;
    bool waited = false;
    for (int unit = group; unit < units; unit += JOIN_GROUPS * gridDim.x) {
        const int q = unit % UNITS, wg = unit / UNITS % NWG, r = unit / (UNITS * NWG);
        const sp_tile t = tile_of(job, share.whole + r, lane);
        const int b = q * EACH / BOX, at = q * EACH % BOX + 2 * (lane & 3);
        const int row = ROWS * wg + thread / WARP * 16 + (lane >> 2);
        const place upper = place_of(job, t, b, row), lower = place_of(job, t, b, row + 8);
        if (!waited) launch_wait();
        waited = true;
        if (upper.first < 0) continue;
        const float4 v = added(share, r, (const float4 *)job.scratch + (u64)wg * SLOT + q * GROUP + thread);
        const float scale = job.scale;
        store_pair(job, upper, at, narrow2(scale * v.x, scale * v.y));
        store_pair(job, lower, at, narrow2(scale * v.z, scale * v.w));
    }
    if (!waited) launch_wait(); /* what comes after this kernel has to find the one before it done */
}
