/* stored: y = w x and its epilogue on vectors [vector0, vector0 + vectors) of one panel, w in any format.
 *
 *      stored_sums(a)  -->  y        generated for the format (room special, implement/stored.c) and standing before this text
 *      then, 4 rows at a time, bias and epilogue over y
 *
 * There is no portable one: kernel walk does the same for every format. Parameters: those of epilogue.h.
 */

INLINE void stored_rows(const struct sp_stored_args *a, long row, const int NR, const int NV, long base)
{
    vec acc[4][4];
    const float *y = a->e.y + row * SP_PANEL + base;
    UNROLL for (int r = 0; r < NR; r++) UNROLL for (int j = 0; j < NV; j++) acc[r][j] =
        load(y + r * SP_PANEL + LANES * j) + splat(a->e.bias[row + r]);
    end_rows(&a->e, acc, row, NR, NV, base);
}

KERNEL void sp_kernel_stored(const void *args)
{
    const struct sp_stored_args *a = (const struct sp_stored_args *)args;
    const long first = a->vector0 * 16;
    long row = 0;
    end_begin(&a->e);
    if (a->vectors <= 0) return;
    stored_sums(a);
#define STORED_FOUR(NV, vector) stored_rows(a, row, 4, NV, first + (vector)*LANES)
#define STORED_ONE(NV, vector)  stored_rows(a, row, 1, NV, first + (vector)*LANES)
    for (; row + 4 <= a->n; row += 4) TILES(a->vectors, STORED_FOUR)
    for (; row < a->n; row++) TILES(a->vectors, STORED_ONE)
}
