/* library: y = w x and its epilogue on one panel, w dense and row by row, its product by a library found at run time.
 *
 *      product(w, x) --> y        then, 4 rows at a time, the epilogue over y
 *
 * A package must also run where the library is not: then, and where the library gives up, the rows are multiplied here, 4 at a
 * time in runs as in kernel linear, with weights that lie k floats apart. Parameters: those of epilogue.h.
 */

#define LIBRARY_RUN 256

/* acc += w x for NR rows from `row` on. */
INLINE void library_sums(const struct sp_library_args *a, vec (*acc)[4], long row, const int NR, long base,
                         const int NV)
{
    const float *w = a->w + row * a->k, *x = a->x + base;
    for (long k0 = 0; k0 < a->k; k0 += LIBRARY_RUN) {
        const long end = a->k - k0 < LIBRARY_RUN ? a->k : k0 + LIBRARY_RUN;
        vec run[4][4];
        UNROLL for (int r = 0; r < NR; r++) UNROLL for (int j = 0; j < NV; j++) run[r][j] = splat(0.f);
        for (long k = k0; k < end; k++) mac_set(run, (1 << NR) - 1, w + k, a->k, x + k * SP_PANEL, NV);
        UNROLL for (int r = 0; r < NR; r++) UNROLL for (int j = 0; j < NV; j++) acc[r][j] += run[r][j];
    }
}

INLINE void library_rows(const struct sp_library_args *a, long row, const int NR, int done, const int NV,
                         long base)
{
    vec acc[4][4];
    const float *y = a->e.y + row * SP_PANEL + base;
    UNROLL for (int r = 0; r < NR; r++) UNROLL for (int j = 0; j < NV; j++) acc[r][j] =
        done ? load(y + r * SP_PANEL + LANES * j) : splat(0.f);
    if (!done) library_sums(a, acc, row, NR, base, NV);
    end_rows(&a->e, acc, row, NR, NV, base);
}

KERNEL void sp_kernel_library(const void *args)
{
    const struct sp_library_args *a = (const struct sp_library_args *)args;
    const long rows = a->row1 - a->row0;
    long row = a->row0;
    int done = 0;
    end_begin(&a->e);
    if (a->product && rows > 0 && a->k > 0)
        done = !a->product(a->w + row * a->k, a->x, a->e.y + row * SP_PANEL, rows, a->k, a->vectors * 16);
#define FOUR_ROWS(NV, vector) library_rows(a, row, 4, done, NV, (vector)*LANES)
#define ONE_ROW(NV, vector)   library_rows(a, row, 1, done, NV, (vector)*LANES)
    for (; row + 4 <= a->row1; row += 4) TILES(a->vectors, FOUR_ROWS)
    for (; row < a->row1; row++) TILES(a->vectors, ONE_ROW)
}
