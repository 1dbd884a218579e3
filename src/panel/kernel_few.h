/* few: y = w x and its epilogue for few tokens, which stay in rows. Every weight is read once and used for all tokens of a tile: with so
 * few the time is that of reading the weights, so that the smallest storage wins, and the loops only have to keep up with memory.
 *
 *     bitmap    16 inputs a step, which are the lanes; the bits say where the next weights go (expand)
 *     strips    16 output rows are the lanes; a step is one input of all of them (dense: every input)
 *     csr       one token: 4 weights a step; several: they are the lanes, a step is one weight
 *
 * Rows are taken several at once, from as many places of this part's share, so that memory is read in several streams that go on from row to
 * row; one stream would wait for itself. A row's sum is taken in the same order whatever part or place it falls into.
 *
 * The activations are first copied into the order in which the loops read them, padded with zeros:
 *
 *     bitmap    [inputs/16][NT tokens][16 inputs]          strips, csr    [inputs][NT tokens]
 *
 * Long sums are taken in runs, as in kernel linear, but for csr of one token, whose row has 8 sums. Sums go to y as they are; bias and epilogue follow when all of a tile are there.
 *
 * Parameters, constants in a compiled kernel and fields of the arguments in the portable one: FORM, TOKENS (as many as
 * are expected; others work, too), and those of epilogue.h.
 */
#ifndef FORM
#define FORM   (a->form)
#define TOKENS (a->tokens)
#endif

#define WIDEST   (LANES == 16 ? SP_FEW_TOKENS : 4)
#define FEW_RUN  256 /* blocks of strips, weights of a row of csr */
#define BITS_RUN 64  /* steps */
/* Ask for what a stream will need about a microsecond from now; past the end of an array that does nothing. */
#define AHEAD_OF(p) __builtin_prefetch((const char *)(p) + 1024)

/* ------------------------------------------------------------------ activations */

/* Inputs [f, f + LANES) of tokens [t, t + NT) as [input][NT]; LANES - NT floats past the last one are written, too. */
INLINE void few_square(const struct sp_few_args *a, long t, long f, const int NT, float *to)
{
    const long wide = a->k - f < LANES ? a->k - f : LANES;
    vec r[LANES];
    UNROLL for (int l = 0; l < LANES; l++) r[l] =
        l < NT && t + l < a->tokens ? load_some(a->x + (t + l) * a->k + f, wide) : splat(0.f);
    transpose(r);
    for (long i = 0; i < wide; i++) *(vec_anywhere *)(to + i * NT) = r[i];
}

INLINE const float *few_spread(const struct sp_few_args *a, long t, const int NT)
{
    float *to = a->work;
    if (FORM != SP_FEW_BITMAP) {
        if (NT == 1) return a->x + t * a->k;
        for (long f = 0; f < a->k; f += LANES) few_square(a, t, f, NT, to + f * NT);
        return to;
    }
    for (long f = 0; f < a->k; f += 16)
        for (int l = 0; l < NT; l++, to += 16) UNROLL for (int s = 0; s < 16; s += LANES)
            {
                const long left = t + l < a->tokens ? a->k - f - s : 0;
                store(to + s, left > 0 ? load_some(a->x + (t + l) * a->k + f + s, left) : splat(0.f));
            }
    return a->work;
}

/* ------------------------------------------------------------------ bitmap */

/* The first n of LANES floats, and not a byte more. */
INLINE vec load_first(const float *p, int n)
{
#if LANES == 16
    vec v;
    __asm__("vmovups %1,%0%{%2%}%{z%}"
            : "=v"(v)
            : "m"(*(const vec_anywhere *)p), "Yk"((unsigned short)((1u << n) - 1)));
    return v;
#else
    return load_some(p, n);
#endif
}

/* v's first lanes, each moved to where its bit is; 0 elsewhere. */
INLINE vec expand(unsigned bits, vec v)
{
#if LANES == 16 /* from a register: from memory it is microcode on some */
    vec r;
    __asm__("vexpandps %1,%0%{%2%}%{z%}" : "=v"(r) : "v"(v), "Yk"((unsigned short)bits));
    return r;
#elif LANES == 8 && defined(__BMI2__) && !defined(__clang__)
    typedef signed char bytes __attribute__((vector_size(8)));
    const unsigned long long there = __builtin_ia32_pdep_di(bits, 0x0101010101010101ull) * 255;
    const unsigned long long from = __builtin_ia32_pdep_di(0x0706050403020100ull, there);
    const ints mask = __builtin_convertvector((bytes)there, ints),
               index = __builtin_convertvector((bytes)from, ints);
    return (vec)((ints)__builtin_shuffle(v, index) & mask);
#else
    vec r = {0};
    for (int i = 0, n = 0; i < LANES; i++)
        if (bits >> i & 1) r[i] = v[n++];
    return r;
#endif
}

/* One step: 16 inputs of NR rows. Careful: the weights end within a vector of here. */
INLINE void bits_step(vec (*acc)[16], const float **w, const unsigned *m, const float *x, const int NR,
                      const int NT, const int careful)
{
    UNROLL for (int s = 0; s < SPLIT; s++)
    {
        vec v[4];
        UNROLL for (int r = 0; r < NR; r++)
        {
            const unsigned bits = m[r] >> s * LANES & ((1u << LANES) - 1);
            const int n = __builtin_popcount(bits);
            v[r] = expand(bits, careful ? load_first(w[r], n) : *(const vec_anywhere *)w[r]);
            w[r] += n;
        }
        UNROLL for (int t = 0; t < NT; t++)
        {
            const vec q = load(x + t * 16 + s * LANES);
            UNROLL for (int r = 0; r < NR; r++) acc[r][t] += v[r] * q;
        }
    }
}

INLINE float total(vec v)
{
#if LANES == 16
    v += __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    v += __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    return v[0];
#else
    float s = 0;
    UNROLL for (int i = 0; i < LANES; i++) s += v[i];
    return s;
#endif
}

/* A run has ended: its sums go to those of the runs before, and begin again. */
INLINE void bits_ran(vec (*acc)[16], vec (*sum)[16], const int NR, const int NT)
{
    UNROLL for (int t = 0; t < NT; t++) UNROLL for (int r = 0; r < NR; r++)
    {
        sum[r][t] += acc[r][t];
        acc[r][t] = splat(0.f);
    }
}

/* Sums of NR rows, `apart` rows from one to the next. */
INLINE void few_bits(const struct sp_few_args *a, const float *x, long row, long apart, float *y, long tokens,
                     const int NR, const int NT, const int careful)
{
    const long bytes = (a->k + 7) / 8, words = a->k / 16, rest = a->k % 16;
    const unsigned char *bits[4];
    const float *w[4];
    unsigned m[4];
    vec acc[4][16], sum[4][16];
    UNROLL for (int r = 0; r < NR; r++)
    {
        bits[r] = (const unsigned char *)a->crd + (row + r * apart) * bytes;
        w[r] = a->w + a->pos[row + r * apart];
        UNROLL for (int t = 0; t < NT; t++) acc[r][t] = sum[r][t] = splat(0.f);
    }
    for (long i = 0; i < words; i++, x += 16 * NT) {
        if (i && i % BITS_RUN == 0) bits_ran(acc, sum, NR, NT);
        UNROLL for (int r = 0; r < NR; r++)
        {
            AHEAD_OF(w[r]);
            m[r] = bits[r][2 * i] | (unsigned)bits[r][2 * i + 1] << 8;
        }
        bits_step(acc, w, m, x, NR, NT, careful);
    }
    if (rest) {
        UNROLL for (int r = 0; r < NR; r++) m[r] =
            bits[r][2 * words] | (rest > 8 ? (unsigned)bits[r][2 * words + 1] << 8 : 0);
        bits_step(acc, w, m, x, NR, NT, careful);
    }
    UNROLL for (int t = 0; t < NT; t++) UNROLL for (int r = 0; r < NR; r++) if (t < tokens)
        y[t * a->n + r * apart] = total(sum[r][t] + acc[r][t]);
}

INLINE void few_bitmap(const struct sp_few_args *a, const float *x, float *y, long tokens, const int NT)
{
    const int NR = LANES == 16 ? (NT <= 4 ? 4 : 16 / NT) : (NT <= 2 ? 4 : 2);
    const long rows = a->row1 - a->row0, apart = rows / NR;
    long i = 0;
    for (; i < apart && (long)a->pos[a->row0 + i + (NR - 1) * apart + 1] + LANES <= a->weights; i++)
        few_bits(a, x, a->row0 + i, apart, y + i, tokens, NR, NT, 0);
    for (long r = i; r < rows; r++) /* those that the loop above has not done */
        if (r >= NR * apart || r % apart >= i) few_bits(a, x, a->row0 + r, 0, y + r, tokens, 1, NT, 1);
}

/* ------------------------------------------------------------------ strips of 16 rows */

INLINE void strip_step(vec (*acc)[SPLIT], const float *w, const float *x, const int NT)
{
    UNROLL for (int s = 0; s < SPLIT; s++)
    {
        const vec v = *(const vec_anywhere *)(w + s * LANES);
        UNROLL for (int t = 0; t < NT; t++) acc[t][s] += v * splat(x[t]);
    }
}

/* Blocks [i, end) of one strip, TURNS sums of each output taking turns: a single one would wait for itself. */
INLINE void strip_blocks(const struct sp_few_args *a, const float *x, long first, long i, long end,
                         vec (*acc)[16][SPLIT], const int NT, const int TURNS)
{
    const int dense = FORM == SP_FEW_DENSE;
    const unsigned short *crd = dense ? 0 : (const unsigned short *)a->crd + first;
    const float *w = a->w + first * 16;
    for (; i < end; i += TURNS) UNROLL for (int u = 0; u < TURNS; u++) if (u == 0 || i + u < end)
        {
            AHEAD_OF(w + (i + u) * 16);
            strip_step(acc[u], w + (i + u) * 16, x + (dense ? i + u : (long)crd[i + u]) * NT, NT);
        }
}

/* A run has ended, at a multiple of its length from the strip's first block: the sums go to those of the runs before, and begin again. */
INLINE void strip_ran(vec (*acc)[16][SPLIT], vec (*sum)[SPLIT], const int NT, const int TURNS)
{
    UNROLL for (int t = 0; t < NT; t++) UNROLL for (int p = 0; p < SPLIT; p++)
    {
        UNROLL for (int u = 0; u < TURNS; u++) sum[t][p] += acc[u][t][p];
        UNROLL for (int u = 0; u < TURNS; u++) acc[u][t][p] = splat(0.f);
    }
}

/* NR strips, `apart` strips from one to the next, as long as all of them go on; then the rest of each. */
INLINE void few_strips(const struct sp_few_args *a, const float *x, long strip, long apart, float *y,
                       long tokens, const int NR, const int NT, const int TURNS)
{
    long first[4], count[4], common = a->k, i = 0;
    vec acc[4][2][16][SPLIT], sum[4][16][SPLIT];
    UNROLL for (int r = 0; r < NR; r++)
    {
        const long s = strip + r * apart;
        first[r] = FORM == SP_FEW_DENSE ? s * a->k : a->pos[s];
        count[r] = FORM == SP_FEW_DENSE ? a->k : a->pos[s + 1] - first[r];
        common = count[r] < common ? count[r] : common;
        UNROLL for (int u = 0; u < TURNS; u++) UNROLL for (int t = 0; t < NT; t++)
            UNROLL for (int p = 0; p < SPLIT; p++) acc[r][u][t][p] = sum[r][t][p] = splat(0.f);
    }
    for (; i + FEW_RUN < common; i += FEW_RUN) {
        for (long j = i; j < i + FEW_RUN; j += TURNS)
            UNROLL for (int r = 0; r < NR; r++) strip_blocks(a, x, first[r], j, j + TURNS, acc[r], NT, TURNS);
        UNROLL for (int r = 0; r < NR; r++) strip_ran(acc[r], sum[r], NT, TURNS);
    }
    for (; i + TURNS <= common; i += TURNS)
        UNROLL for (int r = 0; r < NR; r++) strip_blocks(a, x, first[r], i, i + TURNS, acc[r], NT, TURNS);
    UNROLL for (int r = 0; r < NR; r++)
    {
        for (long at = i, end; at < count[r]; at = end) {
            if (at % FEW_RUN == 0) strip_ran(acc[r], sum[r], NT, TURNS);
            end = (at / FEW_RUN + 1) * FEW_RUN < count[r] ? (at / FEW_RUN + 1) * FEW_RUN : count[r];
            strip_blocks(a, x, first[r], at, end, acc[r], NT, TURNS);
        }
        const long wide = a->n - (strip + r * apart) * 16;
        UNROLL for (int t = 0; t < NT; t++) UNROLL for (int p = 0; p < SPLIT; p++)
        {
            vec all = acc[r][0][t][p];
            UNROLL for (int u = 1; u < TURNS; u++) all += acc[r][u][t][p];
            all += sum[r][t][p];
            if (t < tokens && wide > p * LANES)
                store_some(y + t * a->n + r * apart * 16 + p * LANES, all, wide - p * LANES);
        }
    }
}

INLINE void few_strip16(const struct sp_few_args *a, const float *x, float *y, long tokens, const int NT)
{
    const int NR = NT * SPLIT <= 4 ? 4 : NT * SPLIT <= 8 ? 2 : 1, TURNS = NT * SPLIT == 1 ? 2 : 1;
    const long strips = (a->row1 - a->row0 + 15) / 16, apart = strips / NR;
    for (long i = 0; i < apart; i++)
        few_strips(a, x, a->row0 / 16 + i, apart, y + i * 16, tokens, NR, NT, TURNS);
    for (long i = NR * apart; i < strips; i++)
        few_strips(a, x, a->row0 / 16 + i, 0, y + i * 16, tokens, 1, NT, TURNS);
}

/* ------------------------------------------------------------------ csr */

typedef float four __attribute__((vector_size(16), may_alias));
typedef float four_anywhere __attribute__((vector_size(16), may_alias, aligned(4)));

/* The activations of 4 weights times them: loads are what this loop has least of, so that coordinates come 4 at a time. */
INLINE four four_products(const float *x, const unsigned short *crd, const float *w)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    typedef unsigned long long anywhere __attribute__((may_alias, aligned(2)));
    const unsigned long long c = *(const anywhere *)crd;
    const four v = {x[c & 65535], x[c >> 16 & 65535], x[c >> 32 & 65535], x[c >> 48]};
#else
    const four v = {x[crd[0]], x[crd[1]], x[crd[2]], x[crd[3]]};
#endif
    return v * *(const four_anywhere *)w;
}

/* One token: NR rows, `apart` rows from one to the next, as long as all of them go on; then the rest of each. */
INLINE void few_rows(const struct sp_few_args *a, const float *x, long row, long apart, float *y,
                     const int NR)
{
    const unsigned short *crd[4];
    const float *w[4];
    long n[4], common = a->k, i = 0;
    four s[4][2];
    UNROLL for (int r = 0; r < NR; r++)
    {
        const int *p = a->pos + row + r * apart;
        crd[r] = (const unsigned short *)a->crd + p[0];
        w[r] = a->w + p[0];
        n[r] = p[1] - p[0];
        common = n[r] < common ? n[r] : common;
        s[r][0] = s[r][1] = (four){0};
    }
    for (; i + 16 <= common; i += 16) UNROLL for (int r = 0; r < NR; r++)
        {
            AHEAD_OF(w[r] + i);
            AHEAD_OF(crd[r] + i);
            UNROLL for (int u = 0; u < 16; u += 4) s[r][u / 4 % 2] +=
                four_products(x, crd[r] + i + u, w[r] + i + u);
        }
    UNROLL for (int r = 0; r < NR; r++)
    {
        long j = i;
        for (; j + 8 <= n[r]; j += 8) {
            s[r][0] += four_products(x, crd[r] + j, w[r] + j);
            s[r][1] += four_products(x, crd[r] + j + 4, w[r] + j + 4);
        }
        s[r][0] += s[r][1];
        float sum = (s[r][0][0] + s[r][0][1]) + (s[r][0][2] + s[r][0][3]);
        for (; j < n[r]; j++) sum += w[r][j] * x[crd[r][j]];
        y[r * apart] = sum;
    }
}

/* The sum of weights [i, end) of a row. */
INLINE vec row_run(const struct sp_few_args *a, const float *x, long i, long end, const int NT)
{
    const unsigned short *crd = (const unsigned short *)a->crd;
    const float *w = a->w;
    vec s[4] = {splat(0.f), splat(0.f), splat(0.f), splat(0.f)};
    for (; i + 4 <= end; i += 4)
        UNROLL for (int u = 0; u < 4; u++) s[u] +=
            splat(w[i + u]) * *(const vec_anywhere *)(x + (long)crd[i + u] * NT);
    for (; i < end; i++) s[0] += splat(w[i]) * *(const vec_anywhere *)(x + (long)crd[i] * NT);
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* Several tokens, which are the lanes: one row. */
INLINE void few_row(const struct sp_few_args *a, const float *x, long row, float *y, long tokens,
                    const int NT)
{
    const long end = a->pos[row + 1];
    long i = a->pos[row];
    vec sum = splat(0.f);
    for (; i + FEW_RUN < end; i += FEW_RUN) sum += row_run(a, x, i, i + FEW_RUN, NT);
    sum += row_run(a, x, i, end, NT);
    UNROLL for (int t = 0; t < NT; t++) if (t < tokens) y[t * a->n] = sum[t];
}

INLINE void few_csr(const struct sp_few_args *a, const float *x, float *y, long tokens, const int NT)
{
    const long rows = a->row1 - a->row0, apart = NT == 1 ? rows / 4 : 0;
    for (long i = 0; i < apart; i++) few_rows(a, x, a->row0 + i, apart, y + i, 4);
    for (long i = 4 * apart; i < rows; i++)
        if (NT == 1)
            few_rows(a, x, a->row0 + i, 0, y + i, 1);
        else
            few_row(a, x, a->row0 + i, y + i, tokens, NT);
}

/* ------------------------------------------------------------------ all of it */

INLINE void few_epilogue(const struct sp_few_args *a, long t)
{
    const float *residual = a->e.residual + t * a->n, *bias = a->e.bias;
    float *y = a->e.y + t * a->n;
    for (long r = a->row0, left; (left = a->row1 - r) > 0; r += LANES) {
        const vec v = load_some(y + r, left) + load_some(bias + r, left);
        store_some(y + r, end_vector(&a->e, v, load_some(residual + r, left)), left);
    }
}

INLINE void few_tile(const struct sp_few_args *a, long t, const int NT)
{
    const long tokens = a->tokens - t < NT ? a->tokens - t : NT;
    const float *x = few_spread(a, t, NT);
    float *y = a->e.y + t * a->n + a->row0;
    if (FORM == SP_FEW_BITMAP)
        few_bitmap(a, x, y, tokens, NT);
    else if (FORM == SP_FEW_CSR)
        few_csr(a, x, y, tokens, NT);
    else
        few_strip16(a, x, y, tokens, NT);
    for (long i = 0; i < tokens; i++) few_epilogue(a, t + i);
}

KERNEL void sp_kernel_few(const void *args)
{
    const struct sp_few_args *a = (const struct sp_few_args *)args;
    const long wide = TOKENS < WIDEST ? TOKENS : WIDEST;
#define TILES_OF(NT)                                                                                         \
    for (long t = 0; t < a->tokens; t += NT) few_tile(a, t, NT)
    if (wide == 1)
        TILES_OF(1);
    else if (wide == 2)
        TILES_OF(2);
#if LANES == 16
    else if (wide > 8)
        TILES_OF(16);
    else if (wide > 4)
        TILES_OF(8);
#endif
    else
        TILES_OF(4);
}
