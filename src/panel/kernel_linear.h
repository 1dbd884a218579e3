/* linear: y = act(w x + bias) + residual on one panel, in strips of 4 output rows.
 *
 *      token lanes ->                    a block: 4 weights of one input row
 *    k0 |................|               w0 w1 w2 w3, crd = k1
 *    k1 |................| --loads-->    acc[r][0..NV) += w_r * x[k1][tokens]
 *    k2 |................|
 *
 * A long sum is taken in runs of RUN blocks, whose sums are added up: rounding errors grow with the length of a run, not of the row.
 *
 * Sparse strips read the input row of each block from crd; dense strips are the same blocks at every k. Parameters, constants in a
 * compiled kernel and fields of the arguments in the portable one: SPARSE, CRD (bytes of a coordinate), ACT, RESIDUAL, STAT.
 */
#ifndef SPARSE
#define SPARSE   (a->sparse)
#define CRD      (a->crd_bytes)
#define ACT      (a->act)
#define RESIDUAL (a->has_residual)
#define STAT     (a->has_stat)
#endif

#define RUN 256

INLINE void linear_epilogue(const struct sparta_linear_args *a, long s, v16 (*acc)[4], const int NV,
                            long base)
{
    const long at = s * 4 * SPARTA_PANEL + base;
    const float *e = a->residual + at;
    float *y = a->y + at, *stat = a->stat + base;
    UNROLL for (int j = 0; j < NV; j++)
    {
        v16 sum = splat(0.f), square = splat(0.f);
        UNROLL for (int r = 0; r < 4; r++)
        {
            v16 v = activate(acc[r][j], ACT);
            if (RESIDUAL) v += load(e + r * SPARTA_PANEL + 16 * j);
            if (STAT) {
                sum += v;
                square += v * v;
            }
            store(y + r * SPARTA_PANEL + 16 * j, v);
        }
        if (STAT) {
            store(stat + 16 * j, load(stat + 16 * j) + sum);
            store(stat + SPARTA_PANEL + 16 * j, load(stat + SPARTA_PANEL + 16 * j) + square);
        }
    }
}

/* Blocks [0, count) of strip s, from block `first` of the weight on. */
INLINE void linear_blocks(const struct sparta_linear_args *a, v16 (*acc)[4], long first, long count,
                          const float *x, const int NV)
{
    const float *w = a->w + first * 4;
    if (SPARSE) {
        const unsigned short *narrow = (const unsigned short *)a->crd + first;
        const unsigned *wide = (const unsigned *)a->crd + first;
        for (long i = 0; i < count; i++, w += 4)
            mac(acc, w, 1, x + (long)(CRD == 2 ? narrow[i] : wide[i]) * SPARTA_PANEL, NV);
    } else {
        for (long i = 0; i < count; i++, w += 4, x += SPARTA_PANEL) mac(acc, w, 1, x, NV);
    }
}

/* The same in runs. */
INLINE void linear_runs(const struct sparta_linear_args *a, v16 (*acc)[4], long first, long count,
                        const float *x, const int NV)
{
    v16 sum[4][4];
    UNROLL for (int r = 0; r < 4; r++) UNROLL for (int j = 0; j < NV; j++) sum[r][j] = splat(0.f);
    for (; count > RUN; count -= RUN, first += RUN) {
        linear_blocks(a, acc, first, RUN, x, NV);
        if (!SPARSE) x += RUN * SPARTA_PANEL;
        UNROLL for (int r = 0; r < 4; r++) UNROLL for (int j = 0; j < NV; j++)
        {
            sum[r][j] += acc[r][j];
            acc[r][j] = splat(0.f);
        }
    }
    linear_blocks(a, acc, first, count, x, NV);
    UNROLL for (int r = 0; r < 4; r++) UNROLL for (int j = 0; j < NV; j++) acc[r][j] += sum[r][j];
}

INLINE void linear_strips(const struct sparta_linear_args *a, const int NV, long base)
{
    for (long s = a->strip0; s < a->strip1; s++) {
        v16 acc[4][4];
        const long first = SPARSE ? a->pos[s] : s * a->k, count = SPARSE ? a->pos[s + 1] - a->pos[s] : a->k;
        UNROLL for (int r = 0; r < 4; r++) UNROLL for (int j = 0; j < NV; j++) acc[r][j] =
            splat(a->bias[s * 4 + r]);
        if (count > RUN)
            linear_runs(a, acc, first, count, a->x + base, NV);
        else
            linear_blocks(a, acc, first, count, a->x + base, NV);
        linear_epilogue(a, s, acc, NV, base);
    }
}

KERNEL void sparta_kernel_linear(const void *args)
{
    const struct sparta_linear_args *a = (const struct sparta_linear_args *)args;
    if (STAT)
        for (int i = 0; i < 2 * SPARTA_PANEL; i++) a->stat[i] = 0;
#define STRIPS(NV, vector) linear_strips(a, NV, (vector)*16)
    TILES(a->vectors, STRIPS)
}
