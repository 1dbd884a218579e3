/* interact: dot products of vectors, two by two, one item a lane: multiply-adds down the features, nothing is added across lanes.
 *
 *     a few items (LANES) at a time:   stage   every vector as (dim)[LANES], from its panel, or from rows of its table
 *                                              turned in registers
 *                                      cross   squares of 4 x 4 dots: 16 sums in registers, 8 rows loaded for 16
 *                                              multiply-adds; 3 x 3 where there are 16 registers
 *          j ->
 *     i  (0,0)                         a square on the diagonal needs 10 of its 16 dots
 *     |  (1,0) (1,1)
 *     v  (2,0) (2,1) (2,2)
 *
 * Table rows lie anywhere in memory, each in a page of its own, and to wait for them takes longer than the dots: all are asked for
 * before the first is used, one line each. (Asking for the next items' rows between the multiply-adds is slower: such a request holds
 * up what comes after it until its page is found.) What is staged, 220 KiB for 27 vectors of 128, stays in the second cache.
 * Long vectors are summed up in runs, as in kernel linear. Each sum goes straight to its row of the output, behind the
 * vector that is kept.
 */
#define DOT_RUN 256
#if LANES == 16
#define SIDE 4
#else
#define SIDE 3
#endif
/* Floats from one staged vector to the next: a line more than it needs, so that the same row of all vectors does not fall into
 * one set of the cache. */
#define STAGED(dim) (((dim) + 1) * LANES)

INLINE void stage_rows(const struct sp_interact_args *a, const float *const *row, long lane0, float *w)
{
    for (long f = 0; f < a->dim; f += LANES, w += LANES * LANES) {
        vec r[LANES];
        const long wide = a->dim - f < LANES ? a->dim - f : LANES;
        if (wide == LANES && lane0 + LANES <= a->count)
            UNROLL for (int l = 0; l < LANES; l++) r[l] = load_some(row[lane0 + l] + f, LANES);
        else
            for (int l = 0; l < LANES; l++)
                r[l] = lane0 + l < a->count ? load_some(row[lane0 + l] + f, wide) : splat(0.f);
        transpose(r);
        if (wide == LANES)
            UNROLL for (int i = 0; i < LANES; i++) store(w + i * LANES, r[i]);
        else
            for (long i = 0; i < wide; i++) store(w + i * LANES, r[i]);
    }
}

INLINE void stage(const struct sp_interact_args *a, long lane0)
{
    for (long i = 0; i < a->n; i++)
        for (long l = lane0; l < lane0 + LANES && l < a->count && !a->v[i]; l++)
            __builtin_prefetch(a->row[i * SP_PANEL + l]);
    for (long i = 0; i < a->n; i++) {
        float *w = a->work + i * STAGED(a->dim);
        if (a->v[i])
            for (long d = 0; d < a->dim; d++) store(w + d * LANES, load(a->v[i] + d * SP_PANEL + lane0));
        else
            stage_rows(a, a->row + i * SP_PANEL, lane0, w);
    }
    if (a->keep < 0) return;
    const float *kept = a->work + a->keep * STAGED(a->dim);
    for (long d = 0; d < a->dim; d++) store(a->y + d * SP_PANEL + lane0, load(kept + d * LANES));
}

/* `rows` rows of the vectors at p against those at q, `step` floats apart; on the diagonal i >= j is enough. */
INLINE void dot_run(vec (*acc)[4], const float *p, const float *q, long step, long rows, const int DIAGONAL)
{
    for (; rows > 0; rows--, p += LANES, q += LANES) {
        vec a0 = load(p), a1 = load(p + step), a2 = load(p + 2 * step), a3 = a0, b;
        PIN(a0);
        PIN(a1);
        PIN(a2);
        if (SIDE > 3) {
            a3 = load(p + 3 * step);
            PIN(a3);
        }
        b = DIAGONAL ? a0 : load(q);
        PIN(b);
        acc[0][0] += a0 * b;
        acc[1][0] += a1 * b;
        acc[2][0] += a2 * b;
        if (SIDE > 3) acc[3][0] += a3 * b;
        b = DIAGONAL ? a1 : load(q + step);
        PIN(b);
        if (!DIAGONAL) acc[0][1] += a0 * b;
        acc[1][1] += a1 * b;
        acc[2][1] += a2 * b;
        if (SIDE > 3) acc[3][1] += a3 * b;
        b = DIAGONAL ? a2 : load(q + 2 * step);
        PIN(b);
        if (!DIAGONAL) acc[0][2] += a0 * b;
        if (!DIAGONAL) acc[1][2] += a1 * b;
        acc[2][2] += a2 * b;
        if (SIDE > 3) acc[3][2] += a3 * b;
        if (SIDE == 3) continue;
        b = DIAGONAL ? a3 : load(q + 3 * step);
        PIN(b);
        if (!DIAGONAL) acc[0][3] += a0 * b;
        if (!DIAGONAL) acc[1][3] += a1 * b;
        if (!DIAGONAL) acc[2][3] += a2 * b;
        acc[3][3] += a3 * b;
    }
}

/* Staged vectors i0.. against j0..; past the last vector there is room for three that are not stored. */
INLINE void dot_square(const struct sp_interact_args *a, long i0, long j0, long lane0, const int DIAGONAL)
{
    const long step = STAGED(a->dim);
    const float *p = a->work + i0 * step, *q = a->work + j0 * step;
    vec acc[4][4], sum[4][4];
    UNROLL for (int i = 0; i < SIDE; i++) UNROLL for (int j = 0; j < SIDE; j++) sum[i][j] = splat(0.f);
    for (long from = 0; from < a->dim; from += DOT_RUN) {
        const long rows = a->dim - from < DOT_RUN ? a->dim - from : DOT_RUN;
        UNROLL for (int i = 0; i < SIDE; i++) UNROLL for (int j = 0; j < SIDE; j++) acc[i][j] = splat(0.f);
        dot_run(acc, p + from * LANES, q + from * LANES, step, rows, DIAGONAL);
        UNROLL for (int i = 0; i < SIDE; i++) UNROLL for (int j = 0; j < SIDE; j++) sum[i][j] += acc[i][j];
    }
    UNROLL for (int i = 0; i < SIDE; i++) UNROLL for (int j = 0; j < SIDE; j++)
    {
        if (i0 + i >= a->n || j0 + j > i0 + i) continue;
        const long row = a->where[(i0 + i) * a->n + j0 + j];
        if (row >= 0) store(a->y + row * SP_PANEL + lane0, sum[i][j]);
    }
}

KERNEL void sp_kernel_interact(const void *args)
{
    const struct sp_interact_args *a = (const struct sp_interact_args *)args;
    for (long lane0 = a->lane0; lane0 < a->lane1; lane0 += LANES) {
        stage(a, lane0);
        for (long i = 0; i < a->n; i += SIDE) {
            for (long j = 0; j < i; j += SIDE) dot_square(a, i, j, lane0, 0);
            dot_square(a, i, i, lane0, 1);
        }
    }
}
