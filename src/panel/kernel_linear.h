/* linear: y = w x and its epilogue on one panel, in strips of 4 output rows.
 *
 *      token lanes ->                    a block: 4 weights of one input row
 *    k0 |................|               w0 w1 w2 w3, crd = k1
 *    k1 |................| --loads-->    acc[r][0..NV) += w_r * x[k1][tokens]
 *    k2 |................|
 *
 * A long sum of strips is taken in runs of RUN blocks (of quads, in ranges), whose sums are added up: rounding errors grow with the length of a run, not of the row.
 * Runs of sparse strips are shorter, since a dense product has rounded no more than these few terms where it comes as far.
 *
 * Sparse strips read the input row of each block from crd; dense strips are the same blocks at every k. Quads have no zeros in their
 * blocks: the inputs of a strip are sorted by the set of rows that have them, and each of the 15 sets has its own loop, which loads
 * the activations once for all rows of the set. Their inputs come in ranges short enough that the activations of one stay in the L1
 * cache while all strips pass over it; y keeps the sums meanwhile.
 *
 *      rows of the strip   inputs (crd)      weights
 *      {0}    0001         3 17 90           a b c
 *      {0,1}  0011         5 64              d e  f g
 *      ...    1111         8                 h i j k
 *
 * Parameters, constants in a compiled kernel and fields of the arguments in the portable one: FORM, CRD (bytes of a coordinate),
 * and those of epilogue.h.
 */
#ifndef FORM
#define FORM (a->form)
#define CRD  (a->crd_bytes)
#endif

#define RUN (FORM == SP_FORM_STRIPS ? 64 : 256)

/* Weights that are fetched ahead, a page of them: a dense weight is read once a panel, mostly from behind the L2 cache, and what the machine fetches by itself
 * stops at the end of a page. Behind the last weight nothing is read: a fetch faults nowhere. */
#define AHEAD 1024

/* Blocks [0, count) of strip s, from block `first` of the weight on. */
INLINE void linear_blocks(const struct sp_linear_args *a, vec (*acc)[4], long first, long count,
                          const float *x, const int NV)
{
    const float *w = a->w + first * 4;
    if (FORM == SP_FORM_STRIPS) {
        const unsigned short *narrow = (const unsigned short *)a->crd + first;
        const unsigned *wide = (const unsigned *)a->crd + first;
        for (long i = 0; i < count; i++, w += 4)
            mac(acc, w, 1, x + (long)(CRD == 2 ? narrow[i] : wide[i]) * SP_PANEL, NV);
    } else {
        for (long i = 0; i < count; i++, w += 4, x += SP_PANEL) {
            __builtin_prefetch(w + AHEAD);
            mac(acc, w, 1, x, NV);
        }
    }
}

/* The same in runs. */
INLINE void linear_runs(const struct sp_linear_args *a, vec (*acc)[4], long first, long count, const float *x,
                        const int NV)
{
    vec sum[4][4];
    UNROLL for (int r = 0; r < 4; r++) UNROLL for (int j = 0; j < NV; j++) sum[r][j] = splat(0.f);
    for (; count > RUN; count -= RUN, first += RUN) {
        linear_blocks(a, acc, first, RUN, x, NV);
        if (FORM == SP_FORM_DENSE) x += RUN * SP_PANEL;
        UNROLL for (int r = 0; r < 4; r++) UNROLL for (int j = 0; j < NV; j++)
        {
            sum[r][j] += acc[r][j];
            acc[r][j] = splat(0.f);
        }
    }
    linear_blocks(a, acc, first, count, x, NV);
    UNROLL for (int r = 0; r < 4; r++) UNROLL for (int j = 0; j < NV; j++) acc[r][j] += sum[r][j];
}

#if LANES == 16
/* Dense strips side by side, where a panel has few vectors: the sums of one strip would wait for each other, and a row of tokens, which comes from
 * the L2 cache, would be loaded for 4 multiply-adds. Each sum has its terms in the order of linear_strip, so that its bits are the same. */
INLINE void beside_blocks(vec (*acc)[4], const float *w, long apart, long count, const float *x,
                          const int strips, const int NV)
{
    for (long i = 0; i < count; i++, w += 4, x += SP_PANEL) {
        vec q0 = load(x), q1 = q0, q2 = q0;
        if (NV > 1) q1 = load(x + LANES);
        if (NV > 2) q2 = load(x + 2 * LANES);
        UNROLL for (int r = 0; r < 4 * strips; r++)
        {
            if (r % 4 == 0) __builtin_prefetch(w + r / 4 * apart + AHEAD);
            const vec b = splat(w[r / 4 * apart + r % 4]);
            acc[r][0] += b * q0;
            if (NV > 1) acc[r][1] += b * q1;
            if (NV > 2) acc[r][2] += b * q2;
        }
    }
}

INLINE void beside_strips(const struct sp_linear_args *a, long s, const int strips, const int NV)
{
    vec acc[16][4], sum[16][4];
    const float *w = a->w + s * a->k * 4, *x = a->x;
    UNROLL for (int r = 0; r < 4 * strips; r++) UNROLL for (int j = 0; j < NV; j++) sum[r][j] = splat(0.f);
    for (long left = a->k; left > 0; left -= RUN, w += RUN * 4, x += RUN * SP_PANEL) {
        UNROLL for (int r = 0; r < 4 * strips; r++) UNROLL for (int j = 0; j < NV; j++) acc[r][j] =
            splat(0.f);
        beside_blocks(acc, w, a->k * 4, left < RUN ? left : RUN, x, strips, NV);
        UNROLL for (int r = 0; r < 4 * strips; r++) UNROLL for (int j = 0; j < NV; j++) sum[r][j] +=
            acc[r][j];
    }
    UNROLL for (int i = 0; i < strips; i++) end_rows(&a->e, sum + 4 * i, (s + i) * 4, 4, NV, 0);
}

/* All but the last few; the first that is left. */
INLINE long linear_beside(const struct sp_linear_args *a, const int strips, const int NV)
{
    long s = a->strip0;
    for (; s + strips <= a->strip1; s += strips) beside_strips(a, s, strips, NV);
    return s;
}
#endif

INLINE void linear_strip(const struct sp_linear_args *a, long s, const int NV, long base)
{
    vec acc[4][4];
    const int sparse = FORM == SP_FORM_STRIPS;
    const long first = sparse ? a->pos[s] : s * a->k, count = sparse ? a->pos[s + 1] - a->pos[s] : a->k;
    UNROLL for (int r = 0; r < 4; r++) UNROLL for (int j = 0; j < NV; j++) acc[r][j] = splat(0.f);
    if (count > RUN)
        linear_runs(a, acc, first, count, a->x + base, NV);
    else
        linear_blocks(a, acc, first, count, a->x + base, NV);
    end_rows(&a->e, acc, s * 4, 4, NV, base);
}

/* The inputs that the rows of `set` have. */
INLINE void quad_set(vec (*acc)[4], const int set, long n, const unsigned short **crd, const float **w,
                     const float *x, const int NV)
{
    const unsigned short *c = *crd;
    const float *v = *w;
    for (long i = 0; i < n; i++, c++, v += __builtin_popcount(set))
        mac_set(acc, set, v, 1, x + (long)*c * SP_PANEL, NV);
    *crd = c;
    *w = v;
}

/* One range of inputs: every set of rows of every strip, and what the ranges before have summed up. */
INLINE void quad_range(const struct sp_linear_args *a, long range, const int NV, long base)
{
    const long at = range * a->strips + a->strip0;
    const unsigned short *count = a->count + at * 16,
                         *crd = (const unsigned short *)a->crd + a->start[at * 2];
    const float *w = a->w + a->start[at * 2 + 1], *x = a->x + range * a->range * SP_PANEL + base;
    __asm__("" : "+r"(x)); /* one address: gcc 12 would add its parts up again for each input */
    for (long s = a->strip0; s < a->strip1; s++, count += 16) {
        vec acc[4][4];
        float *y = a->e.y + s * 4 * SP_PANEL + base;
        UNROLL for (int r = 0; r < 4; r++) UNROLL for (int j = 0; j < NV; j++) acc[r][j] = splat(0.f);
#define SET(set) quad_set(acc, set, count[set], &crd, &w, x, NV)
        SET(1);
        SET(2);
        SET(3);
        SET(4);
        SET(5);
        SET(6);
        SET(7);
        SET(8);
        SET(9);
        SET(10);
        SET(11);
        SET(12);
        SET(13);
        SET(14);
        SET(15);
#undef SET
        if (range)
            UNROLL for (int r = 0; r < 4; r++) UNROLL for (int j = 0; j < NV; j++) acc[r][j] +=
                load(y + r * SP_PANEL + LANES * j);
        if ((range + 1) * a->range >= a->k)
            end_rows(&a->e, acc, s * 4, 4, NV, base);
        else
            UNROLL for (int r = 0; r < 4; r++) UNROLL for (int j = 0; j < NV; j++)
                store(y + r * SP_PANEL + LANES * j, acc[r][j]);
    }
}

/* The tiles of a strip one after the other: its weights stay in the L1 cache. */
KERNEL void sp_kernel_linear(const void *args)
{
    const struct sp_linear_args *a = (const struct sp_linear_args *)args;
    end_begin(&a->e);
    long s = a->strip0;
#if LANES == 16
    if (FORM == SP_FORM_DENSE && a->vectors < 4)
        s = a->vectors == 1   ? linear_beside(a, 4, 1)
            : a->vectors == 2 ? linear_beside(a, 2, 2)
                              : linear_beside(a, 2, 3);
#endif
#define STRIP(NV, vector) linear_strip(a, s, NV, (vector)*LANES)
#define QUADS(NV, vector) quad_range(a, range, NV, (vector)*LANES)
    if (FORM != SP_FORM_QUADS)
        for (; s < a->strip1; s++) STRIP_TILES(a->vectors, STRIP)
    else
        for (long range = 0; range == 0 || range * a->range < a->k; range++) STRIP_TILES(a->vectors, QUADS)
}
