/* linear: y = act(w x + bias) + residual on one panel, in strips of 4 output rows.
 *
 *      token lanes ->                    a block: 4 weights of one input row
 *    k0 |................|               w0 w1 w2 w3, crd = k1
 *    k1 |................| --loads-->    acc[r][0..NV) += w_r * x[k1][tokens]
 *    k2 |................|
 *
 * Sparse strips read the input row of each block from crd; dense strips are the same blocks at every k. Parameters, constants in a
 * compiled kernel and fields of the arguments in the portable one: SPARSE, CRD (bytes of a coordinate), ACT, RESIDUAL, STAT.
 */
#ifndef SPARSE
#define SPARSE (a->sparse)
#define CRD (a->crd_bytes)
#define ACT (a->act)
#define RESIDUAL (a->has_residual)
#define STAT (a->has_stat)
#endif

INLINE void linear_epilogue(const struct sparta_linear_args *a, long s, v16 (*acc)[4], const int NV, long base)
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

INLINE void linear_strips(const struct sparta_linear_args *a, const int NV, long base)
{
    const float *rows = a->x + base;
    for (long s = a->strip0; s < a->strip1; s++) {
        v16 acc[4][4];
        UNROLL for (int r = 0; r < 4; r++) UNROLL for (int j = 0; j < NV; j++) acc[r][j] = splat(a->bias[s * 4 + r]);
        if (SPARSE) {
            const long end = a->pos[s + 1];
            const float *w = a->w + (long)a->pos[s] * 4;
            const unsigned short *narrow = (const unsigned short *)a->crd;
            const unsigned *wide = (const unsigned *)a->crd;
            for (long i = a->pos[s]; i < end; i++, w += 4)
                mac(acc, w, 1, rows + (long)(CRD == 2 ? narrow[i] : wide[i]) * SPARTA_PANEL, NV);
        } else {
            const float *w = a->w + s * a->k * 4, *x = rows;
            for (long i = 0; i < a->k; i++, w += 4, x += SPARTA_PANEL) mac(acc, w, 1, x, NV);
        }
        linear_epilogue(a, s, acc, NV, base);
    }
}

KERNEL void sparta_kernel_linear(const void *args)
{
    const struct sparta_linear_args *a = (const struct sparta_linear_args *)args;
    if (STAT)
        for (int i = 0; i < 2 * SPARTA_PANEL; i++) a->stat[i] = 0;
#define STRIPS(NV, vector) linear_strips(a, NV, (vector) * 16)
    TILES(a->vectors, STRIPS)
}
