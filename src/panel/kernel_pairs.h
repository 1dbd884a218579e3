/* pairs: y = w x and its epilogue on one panel, two output rows at a time, for a sparse weight.
 *
 *      job {rows 3 and 9, 4 shared, 5 own}     acc[0..1] += inputs of both            4 loads of x for 8 multiply-adds
 *                                              acc[0] += 4 inputs, acc[1] += 4        4 loads for 4
 *                                              acc[0] += 1 input,  acc[1] += 1
 *
 * Inputs come in ranges short enough that the activations of one stay near the L1 cache while all rows pass over it; y keeps the sums
 * meanwhile. In each range other rows go together, those that are equally long: jobs of one shape follow each other, so that the
 * processor can tell when loops end. The same rows in their own order took a tenth longer.
 *
 * What is short here is loads: one of x for each multiply-add that shares none. So weights are loaded four at a time and spread
 * by a permutation, which other units do. Where a tile is not all tokens of a panel, its part of every row is copied together: where it lies
 * it would take up only some sets of the L1 cache, and half of it or more would not fit. Parameters: those of epilogue.h.
 */

typedef float pairs_four __attribute__((vector_size(16), may_alias, aligned(4)));

/* Four weights, and the i-th of them in every lane. */
#if LANES >= 8
#if LANES == 16
#define PAIRS_SPREAD "vbroadcastf32x4 %1,%0"
#else
#define PAIRS_SPREAD "vbroadcastf128 %1,%0"
#endif
INLINE vec pairs_load(const float *p)
{
    vec v;
    __asm__(PAIRS_SPREAD : "=v"(v) : "m"(*(const pairs_four *)p));
    return v;
}
INLINE vec pairs_lane(vec four, const int i)
{
    vec v;
    switch (i) {
    case 0: __asm__("vpermilps $0x00,%1,%0" : "=v"(v) : "v"(four)); break;
    case 1: __asm__("vpermilps $0x55,%1,%0" : "=v"(v) : "v"(four)); break;
    case 2: __asm__("vpermilps $0xaa,%1,%0" : "=v"(v) : "v"(four)); break;
    default: __asm__("vpermilps $0xff,%1,%0" : "=v"(v) : "v"(four)); break;
    }
    return v;
}
#else
INLINE vec pairs_load(const float *p)
{
    return *(const pairs_four *)p;
}
INLINE vec pairs_lane(vec four, const int i)
{
    return splat(four[i]);
}
#endif

INLINE void pairs_add(vec *acc, vec w, const float *x, const int NV)
{
    UNROLL for (int j = 0; j < NV; j++) acc[j] += w * load(x + LANES * j);
}

/* Inputs crd[0..4) of one row; rows of x are `step` floats apart. */
INLINE void pairs_own(vec *acc, const unsigned short *crd, const float *w, const float *x, const long step,
                      const int NV)
{
    const vec four = pairs_load(w);
    UNROLL for (int i = 0; i < 4; i++) pairs_add(acc, pairs_lane(four, i), x + (long)crd[i] * step, NV);
}

/* Inputs crd[0..4) of both rows. */
INLINE void pairs_shared(vec (*acc)[4], const unsigned short *crd, const float *w, const float *x,
                         const long step, const int NV)
{
    const vec first = pairs_load(w), second = pairs_load(w + 4);
    UNROLL for (int i = 0; i < 4; i++)
    {
        const float *from = x + (long)crd[i] * step;
        const vec b = pairs_lane(first, i), c = pairs_lane(second, i);
        UNROLL for (int j = 0; j < NV; j++)
        {
            vec q = load(from + LANES * j);
            PIN(q);
            acc[0][j] += b * q;
            acc[1][j] += c * q;
        }
    }
}

/* The sums of a row in this range: added to those before, and after the last one finished. */
INLINE void pairs_store(const struct sp_pairs_args *a, vec (*acc)[4], long row, long range, const int NV,
                        long base)
{
    float *y = a->e.y + row * SP_PANEL + base;
    if (range) UNROLL for (int j = 0; j < NV; j++) acc[0][j] += load(y + LANES * j);
    if (range + 1 == a->ranges) end_sums(&a->e, acc, row, 1, NV, base);
    UNROLL for (int j = 0; j < NV; j++) store(y + LANES * j, acc[0][j]);
}

/* The jobs of a range on one tile, whose rows of x are `step` floats apart: from where in crd and w those of the ranges before ended. */
INLINE void pairs_jobs(const struct sp_pairs_args *a, long range, const unsigned short **crd,
                       const float **weights, const float *x, const long step, const int NV, long base)
{
    const float *w = *weights;
    const unsigned short *c = *crd;
    const struct sp_pairs_job *job = a->job + (range ? a->end[range - 1] : 0), *last = a->job + a->end[range];
    __asm__("" : "+r"(x)); /* one address: gcc 12 would add its parts up again for each input */
    for (; job < last; job++) {
        vec acc[2][4];
        const int both = job->row[0] != job->row[1];
        UNROLL for (int r = 0; r < 2; r++) UNROLL for (int j = 0; j < NV; j++) acc[r][j] = splat(0.f);
        for (unsigned n = job->shared; n; n -= 4, c += 4, w += 8) pairs_shared(acc, c, w, x, step, NV);
        if (both) {
            for (unsigned n = job->own / 4; n; n--, c += 8, w += 8) {
                pairs_own(acc[0], c, w, x, step, NV);
                pairs_own(acc[1], c + 4, w + 4, x, step, NV);
            }
            for (unsigned n = job->own % 4; n; n--, c += 2, w += 2) {
                pairs_add(acc[0], splat(w[0]), x + (long)c[0] * step, NV);
                pairs_add(acc[1], splat(w[1]), x + (long)c[1] * step, NV);
            }
            pairs_store(a, acc + 1, job->row[1], range, NV, base);
        } else
            for (unsigned n = job->own; n; n--, c++, w++)
                pairs_add(acc[0], splat(w[0]), x + (long)c[0] * step, NV);
        pairs_store(a, acc, job->row[0], range, NV, base);
    }
    *crd = c;
    *weights = w;
}

/* A range on one tile: its rows copied together, unless they would not stay in the L1 cache anyway. */
INLINE void pairs_tile(const struct sp_pairs_args *a, long range, const unsigned short **crd, const float **w,
                       const int NV, long base)
{
    const float *x = a->x + range * a->range * SP_PANEL + base;
#if SPLIT > 1
    const long left = a->k - range * a->range, inputs = left < a->range ? left : a->range;
    if (inputs <= SP_PAIRS_NEAR) {
        for (long k = 0; k < inputs; k++)
            UNROLL for (int j = 0; j < NV; j++)
                store(a->work + (k * NV + j) * LANES, load(x + k * SP_PANEL + LANES * j));
        pairs_jobs(a, range, crd, w, a->work, NV * LANES, NV, base);
        return;
    }
#endif
    pairs_jobs(a, range, crd, w, x, SP_PANEL, NV, base);
}

KERNEL void sp_kernel_pairs(const void *args)
{
    const struct sp_pairs_args *a = (const struct sp_pairs_args *)args;
    const unsigned short *crd = a->crd;
    const float *w = a->w;
    end_begin(&a->e);
    for (long range = 0; range < a->ranges; range++) {
        long v = a->vector0 * SPLIT, end = (a->vector0 + a->vectors) * SPLIT;
        const unsigned short *c = crd;
        const float *from = w;
#define PAIRS_TILE(NV) c = crd, from = w, pairs_tile(a, range, &c, &from, NV, v * LANES)
        for (; v + 4 <= end; v += 4) PAIRS_TILE(4);
        switch (end - v) {
#if SPLIT == 1
        case 1: PAIRS_TILE(1); break;
        case 3: PAIRS_TILE(3); break;
#endif
#if SPLIT <= 2
        case 2: PAIRS_TILE(2); break;
#endif
        default: break;
        }
        crd = c, w = from;
    }
}
