/* bits.cu: y(t, i) = sum over j of S(i, j) x(t, j) for an unstructured S and 1 to 64 tokens, at the speed of memory. f16 and bf16, sums in f32.
 *
 *   count, place, write   a weight (rows, cols) to records; once for each change of the weight. Reads it twice.
 *   bits                  the product
 *
 * With so few tokens a product does nothing but read S, once: what counts is its bytes. A bit says of two neighbours along j whether either is there, and such pairs alone
 * are stored: at 70 % that is 1.1 bytes for each element of S, against 2 of the dense one. A bit for each element would be .75 bytes, but takes more
 * instructions than there is time for. A pair is a register of mma.m16n8k16: a bit of it costs a test, a load and an addition.
 *
 *     packed      directory | records of the tiles, 64 x 64, strip by strip | tail, whose last word is 1 where they did not fit
 *     directory   where each record begins, and the last ends, in units of 16 bytes from the start of all
 *     record      32 x 2 words of bits | 32 x u16 where the pairs of a lane begin | pairs, those of lane 0 first, each lane's in the order of its bits
 *
 * A lane has 64 pairs of a tile: bit 16 s + 4 m + r is of the k16 number s, the 16 rows number m, and register r. In these lane 4 g + q holds rows g (+ 8 in
 * registers 1, 3) and of 32 columns, the first for s 0, 1, the others for s 2, 3, column 8 q + 4 (s % 2) (+ 2 in registers 2, 3). mma calls them k = 2 q and 2 q + 8, and a sum does
 * not mind as long as x does the same. So 8 columns of x that lie side by side, one load of 16 bytes, serve two k16, and those of four lanes lie side by side.
 *
 *     block       STRIPS strips of 64 rows, which share x, or one of PARTS parts of their columns; those of a cluster add up what they have
 *     warp        takes columns of tiles in turn: warp, warp + WARPS, ...; has SLOTS slots of SLOT bytes of its own, and fetches its own records: bulk copies (BULK), else cp.async
 *
 *         slot 0   record 0  decode, multiply  | record 3 under way ...
 *         slot 1   record 1 under way          | decode, multiply  ...
 *         slot 2   record 2 under way                              ...
 *
 *     sums        64 x 8 TILES of each warp in registers; in the end they meet in shared memory and are added in the order of warps, then of parts.
 *                 The same bits in every run.
 *
 * A record that is longer than a slot, which is made for those of average length, is read where it lies. Records that lie outside of `packed`, and pairs outside of their record, count as none.
 *
 * Parameters: DTYPE 0, 1; of the product WORDS, WORD0 ...; TILES of 8 tokens, 1 to 8; STRIPS 1 | 2 (up to 6 TILES); PARTS; WARPS, SLOTS, SLOT; OCC blocks of a multiprocessor that registers must allow; EVEN 1: x allows loads of 16 bytes; BULK 1 and PDL 1: sm_90a.
 *
 * The first part is C too: the unit test packs and multiplies with it.
 */
#define SP_BITS_SIDE  64  /* rows and columns of a tile */
#define SP_BITS_LANES 32
#define SP_BITS_PAIRS 64  /* of a lane in a tile */
#define SP_BITS_UNIT  16  /* bytes */
#define SP_BITS_TAIL  16  /* bytes: 0 but for the last word */
#define SP_BITS_START 256 /* bytes of a record before the u16, */
#define SP_BITS_HEAD  320 /* and before the pairs */
#define SP_BITS_MOST  (SP_BITS_HEAD + 4 * SP_BITS_LANES * SP_BITS_PAIRS)

/* Row and column, in its tile, of the pair that bit n of a lane stands for; the column is that of its first element. */
SP_BOTH int sp_bits_row(int lane, int n)
{
    return n / 4 % 4 * 16 + lane / 4 + n % 2 * 8;
}
SP_BOTH int sp_bits_column(int lane, int n)
{
    return n / 32 * 32 + lane % 4 * 8 + n / 16 % 2 * 4 + n / 2 % 2 * 2;
}
/* The bit of row lane / 4 + 8 j and pair p of the 8 along it: 4 of the first 32 columns, 4 of the others. */
SP_BOTH int sp_bits_bit(int j, int p)
{
    return p / 2 * 16 + j / 2 * 4 + j % 2 + p % 2 * 2;
}
/* Units of a record with so many pairs; of the directory. */
SP_BOTH unsigned sp_bits_record(int pairs)
{
    return (unsigned)(SP_BITS_HEAD + 4 * pairs + SP_BITS_UNIT - 1) / SP_BITS_UNIT;
}
SP_BOTH unsigned sp_bits_directory(int tiles)
{
    return ((unsigned)tiles + 1 + 3) / 4;
}
/* Bytes of a record that the directory has from unit `from` to unit `to`, of `units` in all; 0: it is none. */
SP_BOTH unsigned sp_bits_bytes_of(unsigned from, unsigned to, unsigned units)
{
    const unsigned bytes = to > from && to <= units && to - from <= SP_BITS_MOST / SP_BITS_UNIT ? (to - from) * SP_BITS_UNIT : 0;
    return bytes >= SP_BITS_HEAD ? bytes : 0;
}
/* Are so many pairs from `start` on inside of a record of so many bytes, at least SP_BITS_HEAD? */
SP_BOTH int sp_bits_inside(unsigned start, int pairs, unsigned bytes)
{
    return start + (unsigned)pairs <= (bytes - SP_BITS_HEAD) / 4;
}

/* Dynamic shared memory of the product: slots, and in the end sums, whose lines have an odd length so that a column meets all banks. */
#define SP_BITS_LINE(tiles)        (8 * (tiles) + 1)
#define SP_BITS_SUMS(warps, strips, tiles) (((warps) + 1) * (strips) * SP_BITS_SIDE * SP_BITS_LINE(tiles) * 4)
#define SP_BITS_RING(warps, slots, slot) ((warps) * (slots) * (slot))

#ifdef __CUDACC__
#ifndef TILES /* of a product: packing and product are compiled each by itself */
/* ------------------------------------------------------------------ pack */
struct weight {
    const ELEMENT *from;
    u32 *packed;
    i64 step;
    int rows, cols, tiles;
    u32 units; /* of directory and records together */
};
#define PACK_WARPS    8
#define PLACE_THREADS 1024
#define ROW_PAIRS     8 /* of a lane in a row */
#define MAGNITUDES    0x7fff7fffu

/* 8 columns of a row as pairs, zeros where there is nothing. */
DEVICE uint4 read_row(const weight &w, int row, int column)
{
    const ELEMENT *from = w.from + row * w.step + column;
    if (row < w.rows && column + 8 <= w.cols && (u64)from % 16 == 0) return *(const uint4 *)from;
    u32 e[8];
#pragma unroll
    for (int i = 0; i < 8; i++) e[i] = row < w.rows && column + i < w.cols ? from[i] : 0;
    return make_uint4(e[0] | e[1] << 16, e[2] | e[3] << 16, e[4] | e[5] << 16, e[6] | e[7] << 16);
}

/* The pairs of this lane in a tile, by their bits, and the bits. */
DEVICE u64 read_pairs(const weight &w, int tile, u32 (&pair)[SP_BITS_PAIRS])
{
    const int steps = (w.cols + SP_BITS_SIDE - 1) / SP_BITS_SIDE, lane = threadIdx.x % 32;
    const int row = tile / steps * SP_BITS_SIDE + lane / 4, column = tile % steps * SP_BITS_SIDE + lane % 4 * 8;
    u64 there = 0;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const uint4 first = read_row(w, row + 8 * j, column), second = read_row(w, row + 8 * j, column + 32);
        const u32 v[ROW_PAIRS] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
#pragma unroll
        for (int p = 0; p < ROW_PAIRS; p++) {
            const int n = sp_bits_bit(j, p);
            pair[n] = v[p];
            there |= (u64)((v[p] & MAGNITUDES) != 0) << n;
        }
    }
    return there;
}

/* A warp for each tile: units of its record, in the directory. */
KERNEL __launch_bounds__(PACK_WARPS * 32) count(const __grid_constant__ weight w)
{
    const int tile = blockIdx.x * PACK_WARPS + threadIdx.x / 32;
    u32 pair[SP_BITS_PAIRS];
    if (tile >= w.tiles) return;
    const int all = __reduce_add_sync(~0u, __popcll(read_pairs(w, tile, pair)));
    if (threadIdx.x % 32 == 0) w.packed[tile] = sp_bits_record(all);
}

/* One block: units of records become the places where they begin. Whether they fit is said in the last word. */
KERNEL __launch_bounds__(PLACE_THREADS) place(const __grid_constant__ weight w)
{
    __shared__ u32 tally[PLACE_THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 before = sp_bits_directory(w.tiles);
    for (int first = 0; first < w.tiles; first += PLACE_THREADS) {
        const int tile = first + threadIdx.x;
        const u32 mine = tile < w.tiles ? w.packed[tile] : 0;
        u32 sum = mine;
#pragma unroll
        for (int apart = 1; apart < 32; apart *= 2) {
            const u32 other = __shfl_up_sync(~0u, sum, apart);
            if (lane >= apart) sum += other;
        }
        if (lane == 31) tally[warp] = sum;
        __syncthreads();
        const u32 of_warp = tally[lane], ahead = __reduce_add_sync(~0u, lane < warp ? of_warp : 0);
        if (tile < w.tiles) w.packed[tile] = before + ahead + sum - mine;
        before += __reduce_add_sync(~0u, of_warp);
        __syncthreads(); /* all have read what is written next */
    }
    if (threadIdx.x >= SP_BITS_TAIL / 4) return;
    if (threadIdx.x == 0) w.packed[w.tiles] = before;
    w.packed[(i64)w.units * (SP_BITS_UNIT / 4) + threadIdx.x] = threadIdx.x == SP_BITS_TAIL / 4 - 1 && before > w.units;
}

/* A warp for each tile: its record, where it fits. */
KERNEL __launch_bounds__(PACK_WARPS * 32) write(const __grid_constant__ weight w)
{
    const int tile = blockIdx.x * PACK_WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    u32 pair[SP_BITS_PAIRS];
    if (tile >= w.tiles || w.packed[tile + 1] > w.units) return;
    u8 *record = (u8 *)w.packed + (u64)w.packed[tile] * SP_BITS_UNIT;
    const u64 there = read_pairs(w, tile, pair);
    int start = __popcll(there);
#pragma unroll
    for (int apart = 1; apart < 32; apart *= 2) {
        const int other = __shfl_up_sync(~0u, start, apart);
        if (lane >= apart) start += other;
    }
    const int past = __shfl_sync(~0u, start, 31);
    start -= __popcll(there);
    ((uint2 *)record)[lane] = make_uint2((u32)there, (u32)(there >> 32));
    ((u16 *)(record + SP_BITS_START))[lane] = (u16)start;
    u32 *to = (u32 *)(record + SP_BITS_HEAD);
#pragma unroll
    for (int n = 0; n < SP_BITS_PAIRS; n++)
        if (there >> n & 1) to[start++] = pair[n];
    if (lane < -past % 4 + (past % 4 ? 4 : 0)) to[past + lane] = 0; /* up to a whole unit */
}

#else
/* ------------------------------------------------------------------ the product */
#define THREADS   (WARPS * 32)
#define LINE      SP_BITS_LINE(TILES)
#define M_TILES   4 /* of 16 rows */
#define K_STEPS   4 /* of 16 columns */
#define REGISTERS 4 /* of a fragment of S */
#define COLUMNS   8 /* of x in a load */

struct problem {
    const u8 *packed;
    const ELEMENT *x, *bias, *residual;
    ELEMENT *y;
    i64 x_step, y_step, residual_step;
    u32 units;
    int rows, cols, tokens, strips, steps;
};

DEVICE void mma(float (&d)[4], const u32 (&a)[REGISTERS], u32 b0, u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." ETYPE "." ETYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* ------------------------------------------------------------------ x */
/* 8 columns of a token, `left` of which exist; zeros for others. */
DEVICE uint4 load_x(const ELEMENT *from, int left)
{
    uint4 v = make_uint4(0, 0, 0, 0);
#if EVEN
    if (left > 0) v = *(const uint4 *)from;
#else
    u32 pair[COLUMNS / 2];
#pragma unroll
    for (int p = 0; p < COLUMNS / 2; p++) {
        pair[p] = (2 * p < left ? from[2 * p] : 0) | (u32)(2 * p + 1 < left ? from[2 * p + 1] : 0) << 16;
        asm volatile("" : "+r"(pair[p])::"memory"); /* one after the other: there are no registers for all of them in halves */
    }
    v = make_uint4(pair[0], pair[1], pair[2], pair[3]);
#endif
    return v;
}

/* What this lane has of the tokens for a tile, or for half of its columns: with many tokens there are no registers for all. */
#define HALVES (TILES > 6 ? 2 : 1)
#define CHUNKS (2 / HALVES) /* of 8 columns, 32 apart */
struct columns {
    uint4 chunk[TILES][CHUNKS];
};
DEVICE void fetch_x(const problem &job, int step, int half, columns &x)
{
    const int lane = threadIdx.x % 32, column = step * SP_BITS_SIDE + half * 32 + lane % 4 * COLUMNS;
    const ELEMENT *from = job.x + (lane / 4 * job.x_step + column);
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        const int left = 8 * t + lane / 4 < job.tokens ? job.cols - column : 0;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) x.chunk[t][c] = load_x(from + c * 32, left - c * 32);
        from += 8 * job.x_step;
    }
}

/* ------------------------------------------------------------------ records: in a slot, or where they lie */
struct near {
    u32 at;
    __device__ __forceinline__ u32 word(u32 place) const
    {
        u32 v;
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at + place) : "memory");
        return v;
    }
    /* The next pair if its bit is there, else 0. */
    __device__ __forceinline__ u32 take(u32 bit)
    {
        u32 v;
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\nmov.b32 %0, 0;\n@p ld.shared.u32 %0, [%1];\n@p add.u32 %1, %1, 4;\n}"
                     : "=&r"(v), "+r"(at)
                     : "r"(bit)
                     : "memory");
        return v;
    }
};
struct far {
    u32 at; /* in the record */
    const u8 *record;
    __device__ __forceinline__ u32 word(u32 place) const
    {
        return *(const u32 *)(record + at + place);
    }
    __device__ __forceinline__ u32 take(u32 bit)
    {
        if (!bit) return 0;
        const u32 v = *(const u32 *)(record + at);
        at += 4;
        return v;
    }
};

/* A tile by x, into the sums. Its record has `bytes`; pairs that would lie outside of it are none. A load waits for the address that the one before leaves, so
 * there is one such chain for each k16, side by side. `x` has come for the first half. */
template <typename PLACE>
DEVICE void multiply(const problem &job, int step, PLACE record, u32 bytes, columns &x, float (&sum)[M_TILES][TILES][4])
{
    const int lane = threadIdx.x % 32;
    u32 bits[2] = {record.word(8 * lane), record.word(8 * lane + 4)};
    u32 start = record.word(SP_BITS_START + lane / 2 * 4) >> lane % 2 * 16 & 0xffff;
    if (!sp_bits_inside(start, __popc(bits[0]) + __popc(bits[1]), bytes)) bits[0] = bits[1] = 0;
#pragma unroll
    for (int h = 0; h < HALVES; h++) {
        PLACE from[K_STEPS / HALVES];
        if (h) fetch_x(job, step, h, x);
#pragma unroll
        for (int s = 0; s < K_STEPS / HALVES; s++) {
            const int k = h * (K_STEPS / HALVES) + s;
            from[s] = record;
            from[s].at += SP_BITS_HEAD + start * 4;
            start += __popc(bits[k / 2] & 0xffffu << k % 2 * 16);
        }
#pragma unroll
        for (int m = 0; m < M_TILES; m++) {
            u32 a[K_STEPS / HALVES][REGISTERS];
#pragma unroll
            for (int r = 0; r < REGISTERS; r++)
#pragma unroll
                for (int s = 0; s < K_STEPS / HALVES; s++) {
                    const int k = h * (K_STEPS / HALVES) + s;
                    a[s][r] = from[s].take(bits[k / 2] & 1u << (k % 2 * 16 + m * 4 + r));
                }
#pragma unroll
            for (int s = 0; s < K_STEPS / HALVES; s++)
#pragma unroll
                for (int t = 0; t < TILES; t++) {
                    const uint4 v = x.chunk[t][s / 2];
                    mma(sum[m][t], a[s], s % 2 ? v.z : v.x, s % 2 ? v.w : v.y);
                }
        }
    }
}

/* ------------------------------------------------------------------ the ring of a warp */
/* Records of this warp: for each of its columns of tiles those of the strips. `from` and `to` in lane i: units of the record number window + i. */
struct ring {
    u32 slots, barriers;
    uint2 *held; /* of each slot: first unit and bytes of its record */
    int strip, first, end; /* the strip and the columns that it begins with, and those it ends before */
    int window, next;
    u32 from, to;
    int slot;
    u32 phase;
};
DEVICE void look_ahead(const problem &job, ring &r)
{
    const int n = r.window + threadIdx.x % 32, strip = r.strip + n % STRIPS, step = r.first + n / STRIPS * WARPS;
    const bool there = step < r.end && strip < job.strips;
    const u32 *place = (const u32 *)job.packed + ((i64)strip * job.steps + step);
    r.from = there ? place[0] : 0;
    r.to = there ? place[1] : 0;
}
/* The next record, into a slot. */
DEVICE void fetch(const problem &job, ring &r, int slot)
{
    const int lane = threadIdx.x % 32;
    if (r.next == r.window + 32) {
        r.window = r.next;
        look_ahead(job, r);
    }
    const u32 from = __shfl_sync(~0u, r.from, r.next % 32), to = __shfl_sync(~0u, r.to, r.next % 32);
    const u32 bytes = sp_bits_bytes_of(from, to, job.units), copied = bytes <= SLOT ? bytes : 0, at = r.slots + slot * SLOT;
    const u8 *record = job.packed + (u64)from * SP_BITS_UNIT;
    if (lane == 0) r.held[slot] = make_uint2(from, bytes);
    if (r.first + r.next / STRIPS * WARPS < r.end) {
#if BULK
        if (lane == 0) {
            barrier_expect(r.barriers + 8 * slot, copied);
            if (copied) bulk_load(at, record, copied, r.barriers + 8 * slot);
        }
#else
        for (u32 i = lane * 16; i < copied; i += 32 * 16)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at + i), "l"(record + i) : "memory");
#endif
    }
#if !BULK
    asm volatile("cp.async.commit_group;" ::: "memory"); /* one for each turn, so that groups can be counted */
#endif
    r.next++;
}
DEVICE void wait(const ring &r)
{
#if BULK
    barrier_wait(r.barriers + 8 * r.slot, r.phase);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(SLOTS - 1) : "memory");
#endif
    __syncwarp();
}
DEVICE void advance(ring &r)
{
    if (++r.slot < SLOTS) return;
    r.slot = 0;
    r.phase ^= 1;
}

/* The record that is next, by x. */
DEVICE void take_record(const problem &job, ring &r, int step, columns &x, float (&sum)[M_TILES][TILES][4])
{
    wait(r);
    const uint2 held = r.held[r.slot];
    if (SLOT < SP_BITS_MOST && held.y > SLOT)
        multiply(job, step, far{0, job.packed + (u64)held.x * SP_BITS_UNIT}, held.y, x, sum);
    else if (held.y)
        multiply(job, step, near{r.slots + r.slot * SLOT}, held.y, x, sum);
    __syncwarp(); /* all have read what is overwritten next */
    fetch(job, r, r.slot);
    advance(r);
}
DEVICE void take_records(const problem &job, ring &r, float (&sum)[STRIPS][M_TILES][TILES][4])
{
    look_ahead(job, r);
#pragma unroll
    for (int s = 0; s < SLOTS; s++) fetch(job, r, s);
    for (int step = r.first; step < r.end; step += WARPS) {
        columns x;
        fetch_x(job, step, 0, x); /* under way while the record is waited for */
#pragma unroll
        for (int s = 0; s < STRIPS; s++) take_record(job, r, step, x, sum[s]);
    }
}

/* ------------------------------------------------------------------ the end */
DEVICE float of_part(u32 address, int part)
{
    float v;
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %1, %2;\nld.shared::cluster.f32 %0, [there];\n}" : "=f"(v) : "r"(address), "r"(part) : "memory");
    return v;
}
DEVICE void finish(const problem &job, int row, int token, float v)
{
    if (row >= job.rows || token >= job.tokens) return;
    const float bias = job.bias ? wide(job.bias[row]) : 0.f;
    const float residual = job.residual ? wide(job.residual[token * job.residual_step + row]) : 0.f;
    job.y[token * job.y_step + row] = narrow(epilogue(v, bias, residual));
}

#define ROWS (STRIPS * SP_BITS_SIDE)
/* (WARPS + 1, ROWS, LINE) sums: those of each warp, then of the block. */
DEVICE void store(const problem &job, int row, int part, float *sums, const float (&sum)[STRIPS][M_TILES][TILES][4])
{
    const int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    float *mine = sums + threadIdx.x / 32 * ROWS * LINE, *all = sums + WARPS * ROWS * LINE;
#pragma unroll
    for (int m = 0; m < STRIPS * M_TILES; m++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int e = 0; e < 4; e++) mine[(16 * m + g + e / 2 * 8) * LINE + 8 * t + 2 * q + e % 2] = sum[m / M_TILES][m % M_TILES][t][e];
    __syncthreads();
    for (int i = threadIdx.x; i < ROWS * 8 * TILES; i += THREADS) {
        const int r = i % ROWS, token = i / ROWS;
        float v = 0.f;
#pragma unroll
        for (int w = 0; w < WARPS; w++) v += sums[(w * ROWS + r) * LINE + token];
        if (PARTS > 1)
            all[r * LINE + token] = v;
        else
            finish(job, row + r, token, v);
    }
#if PARTS > 1
    cluster_meet();
    for (int i = part * THREADS + threadIdx.x; i < ROWS * 8 * TILES; i += PARTS * THREADS) {
        const int r = i % ROWS, token = i / ROWS;
        float v = 0.f;
        for (int p = 0; p < PARTS; p++) v += of_part(shared_address(all + r * LINE + token), p);
        finish(job, row + r, token, v);
    }
    cluster_meet(); /* others may still read here */
#endif
}

KERNEL __launch_bounds__(THREADS, OCC) bits(const __grid_constant__ problem job)
{
    extern __shared__ __align__(128) u8 raw[];
    __shared__ __align__(8) u64 barriers[WARPS * SLOTS];
    __shared__ uint2 held[WARPS * SLOTS];
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), part = blockIdx.x % PARTS;
    float sum[STRIPS][M_TILES][TILES][4] = {};
    ring r;
    r.slots = shared_address(raw) + warp * SLOTS * SLOT;
    r.barriers = shared_address(barriers) + warp * SLOTS * 8;
    r.held = held + warp * SLOTS;
    r.strip = blockIdx.x / PARTS * STRIPS;
    r.first = (int)((i64)part * job.steps / PARTS) + warp;
    r.end = (int)((i64)(part + 1) * job.steps / PARTS);
    r.window = r.next = r.slot = 0;
    r.phase = 0;
#if BULK
    if (threadIdx.x % 32 == 0) {
        for (int s = 0; s < SLOTS; s++) barrier_make(r.barriers + 8 * s, 1);
        barriers_made();
    }
    __syncwarp();
#endif
#if PDL
    launch_wait();
#endif
    take_records(job, r, sum);
#if PDL
    launch_next(); /* not before: blocks that wait take the place of those that work */
#endif
    __syncthreads(); /* slots become sums */
    store(job, r.strip * SP_BITS_SIDE, part, (float *)raw, sum);
}
#endif
#endif
