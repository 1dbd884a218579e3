/* walk: y = act(w x + bias) + residual on one panel, one output row at a time, for a weight in any format.
 *
 *      notes of row n:  (k 3, at 17) (k 9, at 40) (k 4, at 18)      x[3][tokens] * w[17] + x[9][tokens] * w[40] + ...
 *
 * The notes come from the one walk over the storage (walk.c); the values are read where the format has put them. Two sums take
 * turns, so that a multiply-add does not wait for the one before it; long rows are taken in runs, as in kernel linear, and the
 * sums of the runs added up. Parameters: ACT, RESIDUAL, STAT.
 */
#ifndef ACT
#define ACT      (a->act)
#define RESIDUAL (a->has_residual)
#define STAT     (a->has_stat)
#endif

#define WALK_RUN 256

INLINE void walk_one(vec *acc, float w, const float *x, const int NV)
{
    const vec b = splat(w);
    UNROLL for (int j = 0; j < NV; j++) acc[j] += b * load(x + LANES * j);
}

/* One run of notes, added to acc. */
INLINE void walk_run(vec *acc, const struct sp_walk_note *note, long count, const float *w, const float *x,
                     const int NV)
{
    vec even[4], odd[4];
    long i = 0;
    UNROLL for (int j = 0; j < NV; j++) even[j] = odd[j] = splat(0.f);
    for (; i + 1 < count; i += 2) {
        walk_one(even, w[note[i].at], x + (long)note[i].k * SP_PANEL, NV);
        walk_one(odd, w[note[i + 1].at], x + (long)note[i + 1].k * SP_PANEL, NV);
    }
    if (i < count) walk_one(even, w[note[i].at], x + (long)note[i].k * SP_PANEL, NV);
    UNROLL for (int j = 0; j < NV; j++) acc[j] += even[j] + odd[j];
}

INLINE void walk_row(const struct sp_walk_args *a, vec *acc, long row, long base, const int NV)
{
    UNROLL for (int j = 0; j < NV; j++) acc[j] = splat(a->bias[row]);
    for (long p = 0; p < a->parts; p++) {
        const struct sp_walk_part *part = &a->part[p];
        for (long i = part->pos[row], end = part->pos[row + 1]; i < end; i += WALK_RUN)
            walk_run(acc, part->note + i, end - i < WALK_RUN ? end - i : WALK_RUN, part->w, a->x + base, NV);
    }
}

INLINE void walk_rows(const struct sp_walk_args *a, const int NV, long base)
{
    vec sum[4], square[4];
    UNROLL for (int j = 0; j < NV; j++) sum[j] = square[j] = splat(0.f);
    for (long row = a->row0; row < a->row1; row++) {
        vec acc[4];
        const long at = row * SP_PANEL + base;
        walk_row(a, acc, row, base, NV);
        UNROLL for (int j = 0; j < NV; j++)
        {
            vec v = activate(acc[j], ACT);
            if (RESIDUAL) v += load(a->residual + at + LANES * j);
            if (STAT) {
                sum[j] += v;
                square[j] += v * v;
            }
            store(a->y + at + LANES * j, v);
        }
    }
    if (STAT) UNROLL for (int j = 0; j < NV; j++)
        {
            store(a->stat + base + LANES * j, sum[j]);
            store(a->stat + SP_PANEL + base + LANES * j, square[j]);
        }
}

KERNEL void sp_kernel_walk(const void *args)
{
    const struct sp_walk_args *a = (const struct sp_walk_args *)args;
#define WALK_ROWS(NV, vector) walk_rows(a, NV, (vector)*LANES)
    TILES(a->vectors, WALK_ROWS)
}
