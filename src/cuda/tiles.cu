/* tiles.cu: products and samples on sm_80 and newer: mma.sync or, for exact f32, multiply-adds; copies by cp.async. Any alignment.
 *
 *     entry product    VERB 0   y(t, i) = sum over j of S(i, j) x(t, j)         one block of threads: TOKENS tokens x 64 lines of a strip
 *                      VERB 1   y(t, j) = sum over i of S(i, j) x(t, i)         the same with strips of columns
 *     entry sample     VERB 2   S(i, j) = scale * sum over t of x(t, i) y(t, j)    64 lines of a strip x 128 columns of its blocks, over all tokens
 *
 *   parameters   DTYPE (0 f16, 1 bf16, 2 f32)    EXACT 1: f32 is not rounded to tf32          WORDS, WORD0, ... of a product
 *                PARTS 1, 2, 4: blocks of a strip side by side       THIN 1: a chunk of K takes two steps (blocks that are 16 deep, 16-bit elements)
 *                A_ALIGN, B_ALIGN, OUT_ALIGN: bytes, 16 to an element, that the operands and the result are aligned to, lines too
 *                TOKENS 64 or 128; STAGES of the pipeline
 *
 * Everything is D(M, N) = sum over k of A(M, k) B(N, k), 64 bytes of k at a time (a chunk). The steps of a strip, one behind the other, are one long k, whose blocks lie
 * anywhere; of a sample k is tokens, and the columns of its steps, one behind the other, are N.
 *
 *     product   M tokens, N lines of the strip          sample   M lines of the strip, N columns
 *
 *              k (steps)      lines of the strip                     tokens        columns of steps
 *            +---------+        +----+                             +---------+        +--------+
 *     tokens |    A    |      k |    | B: values          lines    |    A'   |      k |   B    |  y
 *            |    x    |        |    | (turned: along N)           |    x    |        |        |
 *            +---------+        +----+                             +---------+        +--------+
 *
 *   A tile in shared memory has lines of K (as the drawing says: x of a product, values of the straight one) or, TURNED, lines of M or N: it lies as it does in memory. Lines are
 *   padded so that the 8 lines that a warp reads at once fall on different banks. ldmatrix reads both kinds of 16-bit elements; of f32 turned there are plain loads.
 *
 *     time --->     copy c+3 | copy c+4 | ...        STAGES chunks are on their way or in use: after the barrier of chunk c the place of c - 1 is free,
 *                  multiply c | c+1     | ...        and what comes STAGES - 1 later goes there. Which block that is was read one chunk before.
 *
 *   Four warps, 2 x 2, have half of M and half of N each. Sums go through shared memory as f32, so that the result leaves in whole lines whatever computed it.
 *
 * Nothing that the index says is trusted: counts, strips, lines and blocks are held within their sizes; a block outside is zeros, and is not written. Copies end at the edge of x and y. */
#define THREADS        128
#define RESIDENT       3  /* blocks of threads that a multiprocessor has at least */
#define BK_BYTES       64 /* of k in a chunk */
#define VECTOR         16 /* bytes of a copy, if aligned */
#define BYTES          ((int)sizeof(ELEMENT))
#define EACH           (VECTOR / BYTES) /* elements of it */
#define BK             (BK_BYTES / BYTES)
#define SUM_PAD        8 /* floats: rows of sums fall on different banks */
#define SAMPLE_COLUMNS 128
#define PART_LINES     (SP_STRIP / PARTS) /* lines of a strip that one block has, of those of a tile */

#define IS_SAMPLE (VERB == 2)
#define A_TURNED  IS_SAMPLE
#define B_TURNED  (VERB != 0)
#if IS_SAMPLE
#define BM SP_STRIP
#define BN SAMPLE_COLUMNS
#else
#define BM TOKENS
#define BN SP_STRIP
#endif

#define STEP_K (THIN ? BK / 2 : BK) /* of k in a chunk, that of one step */

/* Where several blocks of a strip are side by side, most of them are not there: every warp has all lines of the strip, and leaves out those. A byte for each part of a step
 * says so; it comes with the chunk, one barrier before it is read. */
#define SKIPS (PARTS > 1 && !IS_SAMPLE && !EXACT)
#if SKIPS
__shared__ u32 present[STAGES][BK / STEP_K];
#endif

/* A tile: its lines, their bytes, bytes from a line to the next, passes in which all threads copy it. */
#define PAD_OF(turned)      (turned && BYTES == 4 ? 32 : 16)
#define LINES_OF(turned, n) (turned ? BK : n)
#define WIDE_OF(turned, n)  (turned ? n * BYTES : BK_BYTES)
template <bool TURNED, int SIZE> struct tile {
    static constexpr int lines = LINES_OF(TURNED, SIZE), wide = WIDE_OF(TURNED, SIZE), step = wide + PAD_OF(TURNED);
    static constexpr int bytes = lines * step;
    static constexpr int across = wide / VECTOR;  /* threads side by side */
    static constexpr int down = THREADS / across; /* lines of a pass */
    static constexpr int passes = lines / down;
    static_assert(THREADS % across == 0 && lines % down == 0, "all threads copy in every pass");
};
typedef tile<A_TURNED, BM> tile_a;
typedef tile<B_TURNED, BN> tile_b;
#define STAGE_BYTES (tile_a::bytes + tile_b::bytes)
static_assert(STAGES * STAGE_BYTES >= BM * (BN + SUM_PAD) * 4, "sums find room where the stages were");

DEVICE int at_most(int x, int high)
{
    return x < high ? x : high;
}
DEVICE int held(int x, int low, int high)
{
    return x < low ? low : x > high ? high : x;
}

/* ------------------------------------------------------------------ copies */
/* 16 bytes to shared memory, the first `there` (0 to 16) out of memory, zeros behind. */
template <int ALIGN> DEVICE void copy(u32 to, const ELEMENT *from, int there)
{
    if constexpr (ALIGN == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there) : "memory");
    } else if constexpr (ALIGN >= 4) {
#pragma unroll
        for (int o = 0; o < VECTOR; o += ALIGN)
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to + o), "l"((const char *)from + o), "n"(ALIGN),
                         "r"(held(there - o, 0, ALIGN))
                         : "memory");
    } else {
        u32 w[VECTOR / 4];
#pragma unroll
        for (int i = 0; i < VECTOR / 4; i++) {
            const u16 *two = (const u16 *)from + 2 * i;
            w[i] = (there >= 4 * i + 2 ? (u32)two[0] : 0) | (there >= 4 * i + 4 ? (u32)two[1] << 16 : 0);
        }
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
    }
}
DEVICE void copies_close()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* All but the last N groups of copies have come. */
template <int N> DEVICE void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* ------------------------------------------------------------------ multiply: one chunk, from shared memory into the sums of this thread */
#if EXACT
/* Each thread has 8 rows and FN columns. Along k a line is read 4 elements at a time; turned, 4 rows or columns of one k. */
#define FM 8
#define FN (BM * BN / THREADS / FM)
#define THREADS_M (BM / FM)
#define THREADS_N (BN / FN)
typedef float sums[FM][FN];
DEVICE int own_row(int i)
{
    const int m = threadIdx.x / THREADS_N;
    return A_TURNED ? i / 4 * (4 * THREADS_M) + 4 * m + i % 4 : i * THREADS_M + m;
}
DEVICE int own_column(int j)
{
    const int n = threadIdx.x % THREADS_N;
    return B_TURNED ? j / 4 * (4 * THREADS_N) + 4 * n + j % 4 : j * THREADS_N + n;
}
DEVICE float4 shared_read(u32 from)
{
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(from));
    return v;
}
DEVICE void spread(float (&to)[4], float4 v)
{
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
DEVICE void multiply(sums &d, u32 a, u32 b, int)
{
#pragma unroll 1
    for (int k = 0; k < BK; k += 4) {
        float left[FM / 4][4][4]; /* turned: (of 4 rows, k, row); else (of 4 rows, row, k) */
#pragma unroll
        for (int i = 0; i < FM; i++)
            spread(left[i / 4][i % 4], shared_read(A_TURNED ? a + (k + i % 4) * tile_a::step + own_row(i / 4 * 4) * 4
                                                            : a + own_row(i) * tile_a::step + k * 4));
#pragma unroll
        for (int j = 0; j < FN; j += 4) {
            float right[4][4];
#pragma unroll
            for (int e = 0; e < 4; e++)
                spread(right[e], shared_read(B_TURNED ? b + (k + e) * tile_b::step + own_column(j) * 4
                                                      : b + own_column(j + e) * tile_b::step + k * 4));
#pragma unroll
            for (int e = 0; e < 4; e++)
#pragma unroll
                for (int i = 0; i < FM; i++)
#pragma unroll
                    for (int c = 0; c < 4; c++)
                        d[i][j + c] = fmaf(A_TURNED ? left[i / 4][e][i % 4] : left[i / 4][i % 4][e],
                                           B_TURNED ? right[e][c] : right[c][e], d[i][j + c]);
        }
    }
}
DEVICE void sums_put(float *to, const sums &d)
{
#pragma unroll
    for (int i = 0; i < FM; i++)
#pragma unroll
        for (int j = 0; j < FN; j++) to[own_row(i) * (BN + SUM_PAD) + own_column(j)] = d[i][j];
}

#else
/* A warp has WM x WN of the sums as fragments of 16 x 8: lane l has rows l / 4 and 8 more, columns 2 * (l % 4) and the next. */
#define WARPS_N (SKIPS ? 1 : 2)
#define WM (BM * WARPS_N / (THREADS / 32))
#define WN (BN / WARPS_N)
#define FM (WM / 16)
#define FN (WN / 8)
#define MMA_BYTES 32 /* of k in one instruction: 16 elements, of f32 8 */
#define HALF_K (MMA_BYTES / BYTES / 2)
typedef float sums[FM][FN][4];
DEVICE int warp_row()
{
    return threadIdx.x / 32 / WARPS_N * WM;
}
DEVICE int warp_column()
{
    return threadIdx.x / 32 % WARPS_N * WN;
}

/* Four 8x8 matrices of 16 bits (of 32: 8x4), one of which each 8 lanes point to. */
DEVICE void ldmatrix(u32 (&r)[4], u32 from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from));
}
DEVICE void ldmatrix_turned(u32 (&r)[4], u32 from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from));
}
DEVICE u32 shared_word(u32 from)
{
    u32 x;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(from));
    return x;
}
DEVICE void round_all(u32 (&r)[4])
{
#if DTYPE == 2
#pragma unroll
    for (int i = 0; i < 4; i++) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r[i]) : "f"(__uint_as_float(r[i])));
#endif
}

/* 16 rows of A at (row, k): rows 0-7 and 8-15 of the first half of k, then of the second. */
DEVICE void fragment_a(u32 (&r)[4], u32 tile, int row, int k)
{
    const int lane = threadIdx.x % 32;
    if (!A_TURNED)
        ldmatrix(r, tile + (row + lane % 16) * tile_a::step + (k + lane / 16 * HALF_K) * BYTES);
    else if (BYTES == 2)
        ldmatrix_turned(r, tile + (k + lane / 16 * 8 + lane % 8) * tile_a::step + (row + lane / 8 % 2 * 8) * BYTES);
    else
#pragma unroll
        for (int q = 0; q < 4; q++)
            r[q] = shared_word(tile + (k + q / 2 * HALF_K + lane % 4) * tile_a::step + (row + q % 2 * 8 + lane / 4) * BYTES);
    round_all(r);
}
/* 16 columns of B: columns 0-7 of both halves of k, then 8-15. */
DEVICE void fragment_b(u32 (&r)[4], u32 tile, int column, int k)
{
    const int lane = threadIdx.x % 32;
    if (!B_TURNED)
        ldmatrix(r, tile + (column + lane / 16 * 8 + lane % 8) * tile_b::step + (k + lane / 8 % 2 * HALF_K) * BYTES);
    else if (BYTES == 2)
        ldmatrix_turned(r, tile + (k + lane % 16) * tile_b::step + (column + lane / 16 * 8) * BYTES);
    else
#pragma unroll
        for (int q = 0; q < 4; q++)
            r[q] = shared_word(tile + (k + q % 2 * HALF_K + lane % 4) * tile_b::step + (column + q / 2 * 8 + lane / 4) * BYTES);
    round_all(r);
}
DEVICE void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
#if DTYPE == 2
#define MMA "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
#else
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32." ETYPE "." ETYPE ".f32"
#endif
    asm volatile(MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#if SKIPS
DEVICE void multiply(sums &d, u32 a, u32 b, int stage)
{
#pragma unroll
    for (int k = 0; k < BK; k += 2 * HALF_K) {
        const u32 parts = present[stage][k / STEP_K];
        u32 left[FM][4], right[4];
#pragma unroll
        for (int i = 0; i < FM; i++) fragment_a(left[i], a, warp_row() + 16 * i, k);
#pragma unroll
        for (int j = 0; j < FN; j += 2) {
            if (!(parts >> 8 * (8 * j / PART_LINES) & 1)) continue;
            fragment_b(right, b, 8 * j, k);
#pragma unroll
            for (int i = 0; i < FM; i++) {
                mma(d[i][j], left[i], right[0], right[1]);
                mma(d[i][j + 1], left[i], right[2], right[3]);
            }
        }
    }
}
#else
DEVICE void multiply(sums &d, u32 a, u32 b, int)
{
#pragma unroll
    for (int k = 0; k < BK; k += 2 * HALF_K) {
        u32 left[FM][4], right[FN / 2][4];
#pragma unroll
        for (int i = 0; i < FM; i++) fragment_a(left[i], a, warp_row() + 16 * i, k);
#pragma unroll
        for (int j = 0; j < FN / 2; j++) fragment_b(right[j], b, warp_column() + 16 * j, k);
#pragma unroll
        for (int i = 0; i < FM; i++)
#pragma unroll
            for (int j = 0; j < FN; j++) mma(d[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
    }
}
#endif
DEVICE void sums_put(float *to, const sums &d)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < FM; i++)
#pragma unroll
        for (int j = 0; j < FN; j++) {
            float *at = to + (warp_row() + 16 * i + lane / 4) * (BN + SUM_PAD) + warp_column() + 8 * j + lane % 4 * 2;
            *(float2 *)at = make_float2(d[i][j][0], d[i][j][1]);
            *(float2 *)(at + 8 * (BN + SUM_PAD)) = make_float2(d[i][j][2], d[i][j][3]);
        }
}
#endif

/* ------------------------------------------------------------------ results: OUT elements at a time */
#define OUT       (OUT_ALIGN / BYTES)
#define OUT_LANES (BN / OUT) /* threads of a row of sums */
struct __align__(OUT_ALIGN) pack {
    ELEMENT e[OUT];
};
DEVICE void out_put(ELEMENT *to, const float (&v)[OUT], int there)
{
    pack p;
#pragma unroll
    for (int i = 0; i < OUT; i++) p.e[i] = narrow(v[i]);
    if (there >= OUT) {
        *(pack *)to = p;
        return;
    }
#pragma unroll
    for (int i = 0; i < OUT; i++)
        if (i < there) to[i] = p.e[i];
}
DEVICE void out_get(float (&v)[OUT], const ELEMENT *from, int there)
{
    pack p = {};
    if (there >= OUT) {
        p = *(const pack *)from;
    } else {
#pragma unroll
        for (int i = 0; i < OUT; i++)
            if (i < there) p.e[i] = from[i];
    }
#pragma unroll
    for (int i = 0; i < OUT; i++) v[i] = wide(p.e[i]);
}

/* ------------------------------------------------------------------ the pipeline
 * A walk says where chunks come from: look() finds out where the next one is, load() copies it. */
template <class WALK> DEVICE void accumulate(sums &d, WALK &w, u32 stages, int chunks)
{
    look(w);
#pragma unroll 1
    for (int c = 1 - STAGES; c < chunks; c++) {
        if (c >= 0) {
            copies_wait<STAGES - 2>();
            __syncthreads();
        }
        const int coming = c + STAGES - 1;
        if (coming < chunks) {
            const int stage = coming % STAGES;
            load(w, stages + stage * STAGE_BYTES, stages + stage * STAGE_BYTES + tile_a::bytes, stage);
            look(w);
        }
        copies_close();
        if (c >= 0) multiply(d, stages + c % STAGES * STAGE_BYTES, stages + c % STAGES * STAGE_BYTES + tile_a::bytes, c % STAGES);
    }
    copies_wait<0>();
    __syncthreads(); /* stages have been read */
}
DEVICE void clear(sums &d)
{
    float *all = (float *)&d;
#pragma unroll
    for (int i = 0; i < (int)(sizeof d / sizeof *all); i++) all[i] = 0.f;
}

/* Bytes of a copy that lie before the end: `left` elements. */
DEVICE int bytes_there(int left)
{
    return held(left, 0, EACH) * BYTES;
}

extern __shared__ __align__(128) char dynamic[];

#if !IS_SAMPLE
/* ------------------------------------------------------------------ product */
/* Steps of a strip as one long k. This thread copies one vector of k of some tokens, and of each chunk one vector of tile_b::passes lines of values. */
struct walk {
    /* of the job */
    const ELEMENT *values;
    const i32 *steps;
    i64 block_size, row_step; /* elements of a block; from a token of this thread to its next */
    int count, blocks, cross, depth, features, value_width;
    /* of this thread */
    const ELEMENT *token; /* the first */
    int tokens;           /* from it on */
    int piece;            /* lines of the block before this one's */
    /* the chunk that comes */
    int step, in;
    int line, line_in, block[tile_b::passes];
};

/* Places of this thread in the tiles: its vector of k in A; its k and its line in B. */
DEVICE int k_a()
{
    return threadIdx.x % tile_a::across * EACH;
}
DEVICE int k_b(int pass)
{
    return B_TURNED ? threadIdx.x / tile_b::across + pass * tile_b::down : k_a();
}
DEVICE int line_b(int pass)
{
    return B_TURNED ? threadIdx.x % tile_b::across * EACH : threadIdx.x / tile_b::across + pass * tile_b::down;
}
DEVICE int step_word(const walk &w, int k, int which)
{
    const int s = w.step + k / STEP_K;
    return s < w.count ? w.steps[(i64)s * 2 * PARTS + which] : -1;
}
/* The line across and the blocks of the chunk that comes; then the one after it is the next. */
DEVICE void look(walk &w)
{
    w.line = step_word(w, k_a(), 0);
    w.line_in = w.in;
#pragma unroll
    for (int p = 0; p < tile_b::passes; p++) w.block[p] = step_word(w, k_b(p), 1 + line_b(p) / PART_LINES);
    if (THIN) {
        w.step += 2;
    } else if ((w.in += BK) >= w.depth) {
        w.in = 0;
        w.step++;
    }
}
DEVICE void load(walk &w, u32 a, u32 b, int stage)
{
    (void)stage;
    const bool is = w.line >= 0 && w.line < w.cross;
    const int feature = is ? w.line * w.depth + w.line_in + k_a() % STEP_K : w.features, there = bytes_there(w.features - feature);
    const u32 to_a = a + threadIdx.x / tile_a::across * tile_a::step + threadIdx.x % tile_a::across * VECTOR;
    const u32 to_b = b + threadIdx.x / tile_b::across * tile_b::step + threadIdx.x % tile_b::across * VECTOR;
#pragma unroll
    for (int p = 0; p < tile_a::passes; p++)
        copy<A_ALIGN>(to_a + p * (tile_a::down * tile_a::step), w.token + p * w.row_step + feature, p * tile_a::down < w.tokens ? there : 0);
#pragma unroll
    for (int p = 0; p < tile_b::passes; p++) {
        const int along = w.line_in + k_b(p) % STEP_K, own = w.piece + line_b(p) % PART_LINES;
        const i64 at = w.block[p] * w.block_size + (B_TURNED ? (i64)along * w.value_width + own : (i64)own * w.value_width + along);
        const bool there_is = w.block[p] >= 0 && w.block[p] < w.blocks;
#if SKIPS
        if (k_b(p) % STEP_K == 0 && line_b(p) % PART_LINES == 0) ((u8 *)&present[stage][k_b(p) / STEP_K])[line_b(p) / PART_LINES] = there_is;
        if (!there_is) continue;
#endif
        copy<B_ALIGN>(to_b + p * (tile_b::down * tile_b::step), w.values + at, there_is ? VECTOR : 0);
    }
}

/* Rows of sums through the epilogue; `y` and `residual` at the first token and line of the tile. */
DEVICE void finish(const float *sum, ELEMENT *y, i64 y_step, const ELEMENT *bias, const ELEMENT *residual, i64 residual_step, int tokens, int lines)
{
    const int column = threadIdx.x % OUT_LANES * OUT, there = lines - column;
    float b[OUT] = {}, r[OUT] = {};
    if (there <= 0) return;
    if (bias) {
#pragma unroll
        for (int i = 0; i < OUT; i++) b[i] = i < there ? wide(bias[column + i]) : 0.f;
    }
#pragma unroll 1
    for (int t = threadIdx.x / OUT_LANES; t < at_most(tokens, BM); t += THREADS / OUT_LANES) {
        float v[OUT];
        if (residual) out_get(r, residual + t * residual_step + column, there);
#pragma unroll
        for (int i = 0; i < OUT; i++) v[i] = epilogue(sum[t * (BN + SUM_PAD) + column + i], b[i], r[i]);
        out_put(y + t * y_step + column, v, there);
    }
}

/* Blocks of threads: those of the first tokens first, among them long strips first. */
KERNEL __launch_bounds__(THREADS, RESIDENT) product(ELEMENT *y, const ELEMENT *x, const ELEMENT *values, const i32 *index, const ELEMENT *bias,
                                             const ELEMENT *residual, i64 y_step, i64 x_step, i64 residual_step, i64 tokens, int blocks,
                                             int height, int width, int down, int right, int rows, int cols)
{
    const sp_side s = B_TURNED ? sp_side_turned(height, width, down, right) : sp_side_across(height, width, down, right);
    const int pieces = PARTS > 1 ? 1 : s.side / SP_STRIP, each = s.strips * pieces;
    const int of_tokens = blockIdx.x / each, of_strips = blockIdx.x - of_tokens * each;
    const int strip = held(index[s.order + of_strips / pieces], 0, s.strips - 1);
    const i64 first = (i64)of_tokens * BM;
    const int mine = threadIdx.x / tile_a::across, left = (int)(tokens - first < BM ? tokens - first : BM);
    walk w;
    w.values = values;
    w.steps = index + s.step + (i64)strip * s.cross * 2 * PARTS;
    w.block_size = (i64)height * width;
    w.row_step = tile_a::down * x_step;
    w.count = held(index[s.count + strip], 0, s.cross);
    w.blocks = blocks;
    w.cross = s.cross;
    w.depth = s.depth;
    w.features = B_TURNED ? rows : cols;
    w.value_width = width;
    w.token = x + (first + mine) * x_step;
    w.tokens = left - mine;
    w.piece = of_strips % pieces * SP_STRIP;
    w.step = w.in = 0;
    sums d;
    clear(d);
    accumulate(d, w, shared_address(dynamic), (int)(((i64)w.count * s.depth + BK - 1) / BK));
    sums_put((float *)dynamic, d);
    __syncthreads();
    const i64 line = (i64)strip * (PARTS > 1 ? SP_STRIP : s.side) + w.piece, lines = (B_TURNED ? cols : rows) - line;
    finish((const float *)dynamic, y + first * y_step + line, y_step, bias ? bias + line : bias,
           residual ? residual + first * residual_step + line : residual, residual_step, left, (int)(lines < BN ? lines : BN));
}

#else
/* ------------------------------------------------------------------ sample */
/* Tokens as k. This thread copies the same vector of lines and the same of columns, of other tokens with each chunk. */
struct walk {
    const ELEMENT *a, *b; /* at the first token of this thread in each tile */
    i64 a_step, b_step;   /* from a token to the next */
    int a_there, b_there; /* bytes of the vector */
    i64 tokens;           /* that are left */
};

DEVICE void look(walk &) {}
DEVICE void load(walk &w, u32 a, u32 b, int)
{
    const int a_line = threadIdx.x / tile_a::across, b_line = threadIdx.x / tile_b::across;
#pragma unroll
    for (int p = 0; p < tile_a::passes; p++)
        copy<A_ALIGN>(a + (a_line + p * tile_a::down) * tile_a::step + threadIdx.x % tile_a::across * VECTOR,
                      w.a + p * tile_a::down * w.a_step, a_line + p * tile_a::down < w.tokens ? w.a_there : 0);
#pragma unroll
    for (int p = 0; p < tile_b::passes; p++)
        copy<B_ALIGN>(b + (b_line + p * tile_b::down) * tile_b::step + threadIdx.x % tile_b::across * VECTOR,
                      w.b + p * tile_b::down * w.b_step, b_line + p * tile_b::down < w.tokens ? w.b_there : 0);
    w.a += BK * w.a_step;
    w.b += BK * w.b_step;
    w.tokens -= BK;
}

/* What one block of threads computes: lines `piece` on of a strip, columns of steps `first` to before `end`. */
struct unit {
    int strip, piece, first, end;
    const i32 *steps;
};
/* Unit u: pieces of a strip vary fastest, then cuts of a run of `per` steps, then runs (items of the index). False: there is nothing there. */
DEVICE bool unit_of(unit &o, const i32 *index, const sp_side &s, i64 u, int pieces, int cuts)
{
    const i64 run_cut = u / pieces;
    const int item = (int)(run_cut / cuts), cut = (int)(run_cut - (i64)item * cuts);
    int low = 0, high = s.strips; /* the last strip that begins at or before this item */
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (index[s.item + middle] <= item)
            low = middle;
        else
            high = middle;
    }
    const i64 run = (i64)item - index[s.item + low];
    const int count = held(index[s.count + low], 0, s.cross);
    if (run < 0 || run * s.per >= count) return false;
    const int step = (int)run * s.per, stop = at_most(step + s.per, count);
    o.strip = low;
    o.piece = (int)(u - run_cut * pieces) * SP_STRIP;
    o.first = step * s.depth + cut * BN;
    o.end = at_most(o.first + BN, stop * s.depth);
    o.steps = index + s.step + (i64)low * s.cross * 2 * PARTS;
    return o.first < o.end;
}

/* Sums to the values of their blocks; zero where an element does not exist. */
DEVICE void finish(const float *sum, ELEMENT *values, const u8 *keep, const unit &o, const sp_side &s, int blocks, int rows, int cols, float scale)
{
    const int column = threadIdx.x % OUT_LANES * OUT, virtual_column = o.first + column;
    if (virtual_column >= o.end) return;
    const int step = virtual_column / s.depth, j = virtual_column - step * s.depth;
    const i32 *words = o.steps + (i64)step * 2 * PARTS;
    const i64 col = (i64)words[0] * s.depth + j;
#pragma unroll 1
    for (int line = threadIdx.x / OUT_LANES; line < BM; line += THREADS / OUT_LANES) {
        const int i = o.piece + line % PART_LINES, block = words[1 + line / PART_LINES];
        if (block < 0 || block >= blocks) continue;
        const bool row_is = (i64)o.strip * (PARTS > 1 ? SP_STRIP : s.side) + o.piece + line < rows;
        const i64 at = ((i64)block * s.side + i) * s.depth + j;
        float v[OUT];
#pragma unroll
        for (int e = 0; e < OUT; e++)
            v[e] = row_is && col + e < cols && (!keep || keep[at + e]) ? scale * sum[line * (BN + SUM_PAD) + column + e] : 0.f;
        out_put(values + at, v, OUT);
    }
}

KERNEL __launch_bounds__(THREADS, RESIDENT) sample(ELEMENT *values, const ELEMENT *x, const ELEMENT *y, const u8 *keep, const i32 *index,
                                            i64 x_step, i64 y_step, i64 tokens, float scale, int blocks, int height, int width,
                                            int down, int right, int rows, int cols)
{
    const sp_side s = sp_side_across(height, width, down, right);
    const int pieces = PARTS > 1 ? 1 : s.side / SP_STRIP, cuts = (s.per * s.depth + BN - 1) / BN;
    const i64 most = (i64)s.strips * ((s.cross + s.per - 1) / s.per), said = index[s.item + s.strips];
    const i64 units = (said < most ? said : most) * cuts * pieces;
    const int a_line = threadIdx.x / tile_a::across, b_line = threadIdx.x / tile_b::across;
    for (i64 u = blockIdx.x; u < units; u += gridDim.x) {
        unit o;
        if (!unit_of(o, index, s, u, pieces, cuts)) continue;
        const i64 row = (i64)o.strip * (PARTS > 1 ? SP_STRIP : s.side) + o.piece + threadIdx.x % tile_a::across * EACH;
        const int virtual_column = o.first + threadIdx.x % tile_b::across * EACH, step = virtual_column / s.depth;
        const int line = virtual_column < o.end ? o.steps[(i64)step * 2 * PARTS] : -1;
        const bool is = line >= 0 && line < s.cross;
        const int column = is ? line * s.depth + virtual_column - step * s.depth : cols;
        walk w;
        w.a = x + a_line * x_step + row;
        w.b = y + b_line * y_step + column;
        w.a_step = x_step;
        w.b_step = y_step;
        w.a_there = bytes_there((int)(rows - row < 0 ? 0 : rows - row));
        w.b_there = bytes_there(cols - column);
        w.tokens = tokens;
        sums d;
        clear(d);
        accumulate(d, w, shared_address(dynamic), (int)((tokens + BK - 1) / BK));
        sums_put((float *)dynamic, d);
        __syncthreads();
        finish((const float *)dynamic, values, keep, o, s, blocks, rows, cols, scale);
        __syncthreads(); /* sums have been read */
    }
}
#endif
