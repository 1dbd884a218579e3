/* walk: y = w x and its epilogue on one panel, one output row at a time, for a weight in any format.
 *
 *      notes of row n:  (k 3, w) (k 9, w) (k 4, w)      x[3][tokens] * w + x[9][tokens] * w + ...
 *
 * The notes come from the one walk over the storage (walk.c), in ranges of inputs short enough that the activations of one stay near the L1 cache
 * while all rows pass over it; y keeps the sums meanwhile. Rows with as many notes follow one another, so that the processor can tell when loops end. Two sums take turns, so that a multiply-add does not wait for the one
 * before it; long rows are taken in runs, as in kernel linear, and the sums of the runs added up. Parameters: those of epilogue.h.
 */

#define WALK_RUN 256

INLINE void walk_one(vec *acc, const struct sp_walk_note *note, const float *x, const int NV)
{
    const vec b = splat(note->w);
    const float *from = x + (long)note->k * SP_PANEL;
    UNROLL for (int j = 0; j < NV; j++) acc[j] += b * load(from + LANES * j);
}

/* One run of notes, added to acc. */
INLINE void walk_run(vec *acc, const struct sp_walk_note *note, long count, const float *x, const int NV)
{
    vec even[4], odd[4];
    long i = 0;
    UNROLL for (int j = 0; j < NV; j++) even[j] = odd[j] = splat(0.f);
    for (; i + 1 < count; i += 2) {
        walk_one(even, note + i, x, NV);
        walk_one(odd, note + i + 1, x, NV);
    }
    if (i < count) walk_one(even, note + i, x, NV);
    UNROLL for (int j = 0; j < NV; j++) acc[j] += even[j] + odd[j];
}

/* All rows of a range. What the arguments say is read once: a store of sums might change them, as far as the compiler knows. */
INLINE void walk_range(const struct sp_walk_args *a, long range, const float *x, const int NV, long base)
{
    const unsigned *row = a->row + range * a->rows;
    const long *pos = a->pos + range * a->rows, rows = a->rows;
    const struct sp_walk_note *note = a->note;
    float *y = a->e.y + base;
    const int last = range + 1 == a->ranges;
    for (long r = 0, i = pos[0]; r < rows; r++) {
        vec acc[1][4];
        const long n = row[r], end = pos[r + 1];
        if (range)
            UNROLL for (int j = 0; j < NV; j++) acc[0][j] = load(y + n * SP_PANEL + LANES * j);
        else
            UNROLL for (int j = 0; j < NV; j++) acc[0][j] = splat(0.f);
        for (; end - i > WALK_RUN; i += WALK_RUN) walk_run(acc[0], note + i, WALK_RUN, x, NV);
        walk_run(acc[0], note + i, end - i, x, NV);
        i = end;
        if (last) end_sums(&a->e, acc, n, 1, NV, base);
        UNROLL for (int j = 0; j < NV; j++) store(y + n * SP_PANEL + LANES * j, acc[0][j]);
    }
}

INLINE void walk_rows(const struct sp_walk_args *a, const int NV, long base)
{
    const float *x = a->x + base;
    __asm__("" : "+r"(x)); /* one address: gcc 12 would add its parts up again for each input */
    for (long range = 0; range < a->ranges; range++) walk_range(a, range, x, NV, base);
}

KERNEL void sp_kernel_walk(const void *args)
{
    const struct sp_walk_args *a = (const struct sp_walk_args *)args;
    const long first = a->vector0 * 16;
    end_begin(&a->e);
    if (a->vectors <= 0) return;
#define WALK_ROWS(NV, vector) walk_rows(a, NV, first + (vector)*LANES)
    TILES(a->vectors, WALK_ROWS)
}
