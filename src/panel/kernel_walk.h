/* walk: y = w x and its epilogue on one panel, one output row at a time, for a weight in any format.
 *
 *      notes of row n:  (k 3, at 17) (k 9, at 40) (k 4, at 18)      x[3][tokens] * w[17] + x[9][tokens] * w[40] + ...
 *
 * The notes come from the one walk over the storage (walk.c); the values are read where the format has put them. Two sums take
 * turns, so that a multiply-add does not wait for the one before it; long rows are taken in runs, as in kernel linear, and the
 * sums of the runs added up. Parameters: those of epilogue.h.
 */

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
    UNROLL for (int j = 0; j < NV; j++) acc[j] = splat(a->e.bias[row]);
    for (long p = 0; p < a->parts; p++) {
        const struct sp_walk_part *part = &a->part[p];
        for (long i = part->pos[row], end = part->pos[row + 1]; i < end; i += WALK_RUN)
            walk_run(acc, part->note + i, end - i < WALK_RUN ? end - i : WALK_RUN, part->w, a->x + base, NV);
    }
}

INLINE void walk_rows(const struct sp_walk_args *a, const int NV, long base)
{
    for (long row = a->row0; row < a->row1; row++) {
        vec acc[1][4];
        walk_row(a, acc[0], row, base, NV);
        end_rows(&a->e, acc, row, 1, NV, base);
    }
}

KERNEL void sp_kernel_walk(const void *args)
{
    const struct sp_walk_args *a = (const struct sp_walk_args *)args;
    end_begin(&a->e);
#define WALK_ROWS(NV, vector) walk_rows(a, NV, (vector)*LANES)
    TILES(a->vectors, WALK_ROWS)
}
