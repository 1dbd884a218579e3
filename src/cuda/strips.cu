/* strips.cu: y = x S' and, turned, y = x S on sm_90a, with an epilogue; f16 or bf16, sums in f32.
 *
 *     forward   y(t, i) = sum over j of S(i, j) x(t, j)
 *     turned    y(t, j) = sum over i of S(i, j) x(t, i)
 *
 * The values are operand A, so that a strip of 64 lines (rows of S, turned columns) is wgmma's M, and tokens are N:
 *
 *           step: KS lines across          TOK tokens
 *          +-----------------+          +--------------+
 *     64   | tile of values  |   x   KS |  tile of x   |   =   64 x TOK sums of a warpgroup, in registers
 *    lines +-----------------+          +--------------+
 *
 *   values    the matrix (blocks * height, width) as it is. A tile comes by boxes that the copy engine swizzles: forward a line of shared memory is
 *             a row of S (KS elements; A along K), turned it is one k (64, 32 or 16 columns of a block; A along MN). Blocks of 32 and 16 stand side by side in a
 *             tile; of one that is absent the coordinate lies outside of the matrix, which brings zeros. (So an infinite x reaches all lines of such a strip as NaN.)
 *   x         boxes of TOK tokens x KS features: B along K
 *   steps     index.h: an entry is DEPTH lines across, DEPTH / KS steps
 *   block     a producer warp fills ST stages; NWG warpgroups take them, 64 lines each of one block (NWG 2: blocks of 128 and more)
 *   cluster   CL blocks take the same lines for neighbouring tiles of tokens; each loads a share of the values' tile, and gives it to all
 *   result    sums, epilogue, turned by stmatrix into CHUNK tokens x 64 lines of shared memory (OB buffers of a warpgroup), and out by the copy engine, which clips at
 *             the edges. A residual comes the same way into the same buffer, ahead: the first OB chunks while the product runs, each other after the store before it.
 *   grid      persistent: sp_deal (index.h) says what a cluster does in each round. Strip and count of the next item are read while this one runs.
 *
 *      producer     | full barriers: bytes have come |  consumer
 *      wait empty[s] ------------------------------>   wait full[s]; wgmma of it begins; that of the stage before ends: empty[before] (in all of the cluster)
 *
 * An index is not trusted: counts and strips are clamped, coordinates go through maps. Everything is read after launch_wait: kernels before may have written
 * the values and the index too.
 *
 * Entry strips. Parameters: DTYPE, WORDS, WORD0 ..., TURNED 0|1, SIDE and DEPTH of a block along and across the strip, KS 64|32|16, TOK 256|128|64, NWG 1|2, ST stages,
 * OB buffers of a warpgroup's result, OCC blocks of a multiprocessor, CL 1|2, PDL 1: the next kernel may begin early.
 * Dynamic shared memory: ALIGNMENT + ST * STAGE + NWG * OB * OUT, as strips.c has it.
 */
#define GROUP       128 /* threads of a warpgroup */
#define LANES       32
#define EVERY       0xffffffffu
#define ELEMENTS    2 /* bytes of one */
#define ALIGNMENT   1024
#define X_TILE      (TOK * KS * ELEMENTS)
#define VALUES_TILE (NWG * SP_STRIP * KS * ELEMENTS)
#define STAGE       (X_TILE + VALUES_TILE)
#define CHUNK       64 /* tokens of one store */
#define OUT_LINE    (SP_STRIP * ELEMENTS)
#define OUT         (CHUNK * OUT_LINE)
#define MMA_K       16 /* of one wgmma */
#define SUMS        (TOK / 2)
#define PARTS       (SIDE < SP_STRIP ? SP_STRIP / SIDE : 1)
#define WORDS_STEP  (2 * PARTS) /* of an entry of the index */
#define SUBS        (DEPTH / KS)
#define WARPS       4 /* of a warpgroup */
/* Two warpgroups with 128 sums a thread need more registers than a third of what there is: the producer's group gives its own away, as a whole. */
#define GIVING      (NWG == 2 && OCC == 1)
#define THREADS     (GROUP * NWG + (GIVING ? GROUP : LANES))
#define KEPT        56 /* with TAKEN no more than THREADS * 168, what a block has when it begins: one register more, and it waits for ever */
#define TAKEN       224
#define RESIDUAL    (ANY(SP_WORD_ADD) || ANY(SP_WORD_MUL))
#define ANY(word)                                                                                                                \
    ((WORDS > 0 && WORD0 == word) || (WORDS > 1 && WORD1 == word) || (WORDS > 2 && WORD2 == word) || (WORDS > 3 && WORD3 == word) || \
     (WORDS > 4 && WORD4 == word) || (WORDS > 5 && WORD5 == word) || (WORDS > 6 && WORD6 == word) || (WORDS > 7 && WORD7 == word))

/* Operand A: where k16 further lies, and its descriptor. */
#if TURNED
#define A_LINE (SIDE < SP_STRIP ? SIDE * ELEMENTS : SP_STRIP * ELEMENTS)
#define A_STEP (MMA_K * A_LINE)
#define A_TILE(address) tile_along_mn<A_LINE>(address, KS * A_LINE)
#else
#define A_STEP (MMA_K * ELEMENTS)
#define A_TILE(address) tile_along_k<KS * ELEMENTS>(address)
#endif
#define B_STEP (MMA_K * ELEMENTS)
#define B_TILE(address) tile_along_k<KS * ELEMENTS>(address)
#define DESCRIBED 4 /* descriptors count 16 bytes */

/* As strips.c fills it. */
struct task {
    const i32 *count, *order, *step;
    const ELEMENT *bias;
    int strips, cross;
    int tokens, made; /* of the result */
    sp_deal deal;
};
DEVICE sp_cut cut()
{
    const sp_cut c = {TURNED, SIDE, DEPTH, KS, NWG, CL};
    return c;
}

/* ------------------------------------------------------------------ items, read ahead
 * after: the load of its strip is on the way; next: that of its count; now: all is known. */
struct walk {
    int cluster, round;
    sp_item now, next, after;
    int strip, next_strip, after_strip, count, next_count;
};
/* Volatile, so that it stays behind launch_wait. */
DEVICE i32 read(const i32 *from)
{
    i32 x;
    asm volatile("ld.global.s32 %0, [%1];" : "=r"(x) : "l"(from));
    return x;
}
DEVICE int clamp(int x, int most)
{
    return x < 0 ? 0 : x > most ? most : x;
}
DEVICE void look(const task &t, walk &w)
{
    w.after = sp_deal_at(t.deal, w.cluster, w.round++);
    w.after_strip = w.after.group < 0 ? 0 : read(t.order + w.after.group / sp_cut_pieces(cut()));
}
DEVICE void go_on(const task &t, walk &w)
{
    w.now = w.next;
    w.strip = w.next_strip;
    w.count = w.next_count;
    w.next = w.after;
    w.next_strip = clamp(w.after_strip, t.strips - 1);
    w.next_count = read(t.count + w.next_strip);
    look(t, w);
}
DEVICE walk begin(const task &t)
{
    walk w = {};
    w.cluster = blockIdx.x / CL;
    look(t, w);
    go_on(t, w);
    return w; /* its first item is the next */
}
DEVICE int tokens_from(const walk &w, u32 rank)
{
    return (w.now.tile * CL + rank) * TOK;
}
DEVICE int lines_from(const walk &w)
{
    const int pieces = sp_cut_pieces(cut()), piece = w.now.group % pieces;
    return w.strip * (SIDE < SP_STRIP ? SP_STRIP : SIDE) + piece * sp_cut_lines(cut());
}

/* The ring of stages: place and parity of this round through it, the same in every role. */
struct ring {
    int stage;
    u32 parity;
};
DEVICE void turn(ring &r)
{
    if (++r.stage == ST) {
        r.stage = 0;
        r.parity ^= 1;
    }
}

/* ------------------------------------------------------------------ producer */
struct entry {
    i32 line, block[PARTS];
};
DEVICE entry entry_at(const task &t, int strip, int i)
{
    entry e = {};
    if (i < t.cross) {
        const i32 *from = t.step + ((i64)strip * t.cross + i) * WORDS_STEP;
        e.line = read(from);
#pragma unroll
        for (int p = 0; p < PARTS; p++) e.block[p] = read(from + 1 + p);
    }
    return e;
}
DEVICE entry entry_of(const entry &mine, int lane)
{
    entry e;
    e.line = __shfl_sync(EVERY, mine.line, lane);
#pragma unroll
    for (int p = 0; p < PARTS; p++) e.block[p] = __shfl_sync(EVERY, mine.block[p], lane);
    return e;
}
/* One lane: everything of a step. */
DEVICE void load(const map *x, const map *values, const entry &e, int piece, int sub, int token, u32 rank, u32 stage, u32 full)
{
    const int boxes = sp_cut_boxes(cut()), share = boxes / CL;
    barrier_expect(full, STAGE);
    box_load(stage, x, sp_cut_across(cut(), e.line, sub), token, full);
#pragma unroll
    for (int i = 0; i < share; i++) {
        const int box = CL > 1 ? (int)rank * share + i : i;
        const sp_place at = sp_cut_place(cut(), piece, e.block[PARTS > 1 ? i : 0], sub, box);
        const u32 to = stage + X_TILE + box * (VALUES_TILE / boxes);
        if (CL > 1)
            box_load_to(to, values, at.inner, at.outer, full, (1 << CL) - 1);
        else
            box_load(to, values, at.inner, at.outer, full);
    }
}
DEVICE void produce(const task &t, const map *x, const map *values, u32 base, u32 full, u32 empty, u32 rank)
{
    const int lane = threadIdx.x % LANES;
    ring r = {0, 0};
    walk w = begin(t);
    entry first = entry_at(t, w.next_strip, lane);
    while (w.next.group >= 0) {
        go_on(t, w);
        entry mine = first;
        first = entry_at(t, w.next_strip, lane); /* of the next item */
        const int steps = clamp(w.count, t.cross), piece = w.now.group % sp_cut_pieces(cut()), token = tokens_from(w, rank);
        for (int i = 0; i < steps; i++) {
            if (i && i % LANES == 0) mine = entry_at(t, w.strip, i + lane);
            const entry e = entry_of(mine, i % LANES);
            for (int sub = 0; sub < SUBS; sub++, turn(r))
                if (lane == 0) {
                    barrier_wait(empty + 8 * r.stage, r.parity ^ 1);
                    load(x, values, e, piece, sub, token, rank, base + r.stage * STAGE, full + 8 * r.stage);
                }
        }
    }
    __syncwarp();
}

/* ------------------------------------------------------------------ consumers */
/* A warp is done with a stage: all that write into it are told. */
DEVICE void release(u32 empty, int lane)
{
    if (CL > 1) {
        if (lane < CL) barrier_arrive_at(empty, lane);
    } else if (lane == 0) {
        barrier_arrive(empty);
    }
}

/* All steps of an item; each wgmma runs while the stage of the one before is given back. */
DEVICE void multiply(float (&sum)[SUMS], int steps, ring &r, u32 base, u32 full, u32 empty, int group, int lane)
{
    int before = -1;
    for (int i = 0; i < steps; i++) {
        const u32 stage = base + r.stage * STAGE;
        const u64 a = A_TILE(stage + X_TILE + group * (SP_STRIP * KS * ELEMENTS)), b = B_TILE(stage);
        barrier_wait(full + 8 * r.stage, r.parity);
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < KS / MMA_K; k++) wgmma<TURNED, 0>(sum, a + k * (A_STEP >> DESCRIBED), b + k * (B_STEP >> DESCRIBED), i | k);
        wgmma_close();
        wgmma_wait<1>();
        if (before >= 0) release(empty + 8 * before, lane);
        before = r.stage;
        turn(r);
    }
    wgmma_wait<0>();
    if (before >= 0) release(empty + 8 * before, lane);
}

/* ------------------------------------------------------------------ results
 * A warpgroup's buffers, and where its chunks lie. */
struct out {
    const map *y, *residual;
    u32 buffer, came;       /* the first buffer; barriers, one of each buffer: its residual has come */
    u32 parity;             /* of each of them, a bit */
    int line, token, group; /* of the item */
};
/* Of the thread that stores: the residual of a chunk is called into its buffer, once what is there has been read. */
DEVICE void call(const out &o, int c)
{
    if (c >= TOK / CHUNK) return;
    const u32 came = o.came + 8 * (c % OB);
    stores_read<0>();
    barrier_expect(came, OUT);
    box_load(o.buffer + c % OB * OUT, o.residual, o.line, o.token + c * CHUNK, came);
}
DEVICE void load_turned(u32 (&d)[4], u32 from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(from)
                 : "memory");
}

/* Before the product. */
DEVICE void expect_residual(const out &o)
{
#if RESIDUAL
    if (threadIdx.x % GROUP == 0)
        for (int c = 0; c < OB; c++) call(o, c);
    __syncwarp();
#endif
}
/* A chunk's buffer may be written: its last store is over, or the residual has come into it. */
DEVICE void take_buffer(out &o, int c)
{
    const bool one = threadIdx.x % GROUP == 0;
#if RESIDUAL
    if (one && c) call(o, c - 1 + OB);
    __syncwarp();
    barrier_wait(o.came + 8 * (c % OB), o.parity >> c % OB & 1);
    o.parity ^= 1 << c % OB;
#else
    if (one) stores_read<OB - 1>();
    threads_meet(1 + o.group, GROUP);
#endif
}

/* Sums to memory, CHUNK tokens at a time. A thread has two lines, 8 apart. */
DEVICE void store(const task &t, out &o, const float (&sum)[SUMS])
{
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES % WARPS;
    float bias[2] = {0.f, 0.f};
#if ANY(SP_WORD_BIAS)
    const int line = o.line + 16 * warp + lane / 4;
    if (line < t.made) bias[0] = wide(t.bias[line]);
    if (line + 8 < t.made) bias[1] = wide(t.bias[line + 8]);
#endif
#pragma unroll
    for (int c = 0; c < TOK / CHUNK; c++) {
        const u32 buffer = o.buffer + c % OB * OUT;
        take_buffer(o, c);
#pragma unroll
        for (int q = 0; q < CHUNK / 16; q++) {
            if (o.token + c * CHUNK + 16 * q >= t.tokens) continue; /* also keeps the compiler from doing all of them at once, in more registers than there are */
            const u32 row = 16 * q + lane / 16 * 8 + lane % 8, part = 2 * warp + lane / 8 % 2;
            const u32 at = buffer + row * OUT_LINE + ((part ^ row % 8) << DESCRIBED);
            u32 two[4] = {0, 0, 0, 0}; /* lines 0 and 8 of tokens 0 and 1, then of tokens 8 and 9 */
#if RESIDUAL
            load_turned(two, at);
#endif
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *d = sum + c * (CHUNK / 2) + 8 * q + 2 * i;
                two[i] = narrow2(epilogue(d[0], bias[i % 2], wide((u16)two[i])), epilogue(d[1], bias[i % 2], wide((u16)(two[i] >> 16))));
            }
            stmatrix_turned(at, two[0], two[1], two[2], two[3]);
        }
        written();
        threads_meet(1 + o.group, GROUP);
        if (threadIdx.x % GROUP == 0) {
            box_store(o.y, o.line, o.token + c * CHUNK, buffer);
            stores_close();
        }
    }
}

DEVICE void consume(const task &t, const map *y, const map *residual, u32 base, u32 full, u32 empty, u32 came, u32 rank, int group)
{
    const int lane = threadIdx.x % LANES;
    out o = {y, residual, base + ST * STAGE + group * OB * OUT, came + 8 * OB * group, 0, 0, 0, group};
    float sum[SUMS];
    ring r = {0, 0};
    walk w = begin(t);
    while (w.next.group >= 0) {
        go_on(t, w);
        o.line = lines_from(w) + group * SP_STRIP;
        o.token = tokens_from(w, rank);
        expect_residual(o);
        const int steps = clamp(w.count, t.cross) * SUBS;
        multiply(sum, steps, r, base, full, empty, group, lane);
        wgmma_hold(sum);
        if (!steps)
#pragma unroll
            for (int i = 0; i < SUMS; i++) sum[i] = 0.f;
        store(t, o, sum);
    }
    if (threadIdx.x % GROUP == 0) stores_done();
    __syncwarp();
}

/* ------------------------------------------------------------------ entry */
KERNEL __launch_bounds__(THREADS, OCC)
    strips(const __grid_constant__ map x, const __grid_constant__ map values, const __grid_constant__ map y,
           const __grid_constant__ map residual, const __grid_constant__ task t)
{
    extern __shared__ u8 memory[];
    __shared__ __align__(8) u64 barrier[2 * ST + OB * NWG];
    const u32 base = (shared_address(memory) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const u32 full = shared_address(barrier), empty = full + 8 * ST, came = empty + 8 * ST;
    const int group = __shfl_sync(EVERY, threadIdx.x / GROUP, 0); /* so the compiler knows that it is the same for a warp */
    const u32 rank = CL > 1 ? cluster_rank() : 0;
    if (threadIdx.x == 0) {
        map_prefetch(&x);
        map_prefetch(&values);
        map_prefetch(&y);
        for (int s = 0; s < ST; s++) {
            barrier_make(full + 8 * s, 1);
            barrier_make(empty + 8 * s, CL * NWG * WARPS);
        }
        for (int b = 0; b < OB * NWG; b++) barrier_make(came + 8 * b, 1);
        barriers_made();
    }
    if (CL > 1)
        cluster_meet();
    else
        __syncthreads();
#if PDL
    launch_wait();
#endif
    if (group == NWG) {
#if GIVING
        registers_give<KEPT>();
#endif
        if (threadIdx.x < GROUP * NWG + LANES) {
            produce(t, &x, &values, base, full, empty, rank);
#if PDL
            launch_next(); /* not before: blocks that wait take the place of those that work */
#endif
        }
    } else {
#if GIVING
        registers_take<TAKEN>();
#endif
        consume(t, &y, &residual, base, full, empty, came, rank, group);
    }
    if (CL > 1) cluster_meet(); /* another block may still write here, or arrive at a barrier of this one */
}
