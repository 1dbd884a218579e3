/* matmul_skip: y = x w of two values that are computed, in rows, where most of x is 0. Which elements are there is known only now, so those of a row are
 * listed first:
 *
 *     row of x   . 3 . . 7 . . 1      listed   1 4 7      y = 3 w[1] + 7 w[4] + 1 w[7]
 *
 * Then the rows of w that are listed are added up; the others are never read. A list has room for SP_SKIP_ROOM elements. Where there are
 * more, the sums of the next one are added: any number works, up to all of them. A NaN is not 0. The sum of an element is taken in the same order
 * whichever thread has its row.
 *
 * Where w is wide, `wide` of its columns are taken at a time for all rows, so that they stay in the cache, and rows are listed once more for each.
 */
#define GATHER_SUMS  8  /* vectors that are added to in turns: as many as hide how long an addition takes */
#define GATHER_AHEAD 16 /* elements of the list */

/* ------------------------------------------------------------------ the list */

typedef int ints_anywhere __attribute__((vector_size(4 * LANES), may_alias, aligned(4)));

/* Those of x[f..f + LANES) that are not 0, behind the n that are listed; how many then are. The list has room for LANES more. */
INLINE long gather_some(const struct sp_matmul_skip_args *a, const float *x, long f, long n)
{
    const vec v = load_some(x + f, a->k - f); /* past the end there are zeros */
#if LANES == 16
    enum { DIFFERS = 4, AS_IS = 4 }; /* or is NaN; rounding */
    static const ints place = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const unsigned short there =
        (unsigned short)__builtin_ia32_cmpps512_mask(v, splat(0.f), DIFFERS, -1, AS_IS);
    *(ints_anywhere *)(a->crd + n) =
        __builtin_ia32_compresssi512_mask(splat_int((int)f) + place, splat_int(0), there);
    return n + __builtin_popcount(there);
#elif LANES == 8
    /* a byte for each that is there; of the bytes 0 to 7 these, moved together */
    typedef char bytes __attribute__((vector_size(16)));
    typedef long long halves __attribute__((vector_size(16)));
    const unsigned there = (unsigned)__builtin_ia32_movmskps256((vec)(v != splat(0.f)));
    const unsigned long long which = __builtin_ia32_pdep_di(there, 0x0101010101010101ull) * 255;
    const halves of = {(long long)__builtin_ia32_pext_di(0x0706050403020100ull, which), 0};
    *(ints_anywhere *)(a->crd + n) = splat_int((int)f) + (ints)__builtin_ia32_pmovzxbd256((bytes)of);
    return n + __builtin_popcount(there);
#else
    const ints there = v != splat(0.f);
    UNROLL for (int l = 0; l < LANES; l++)
    {
        a->crd[n] = (unsigned)(f + l);
        n += there[l] & 1;
    }
    return n;
#endif
}

/* From *from on, until the list is full; how many. *from: where the next list begins. */
INLINE long gather_list(const struct sp_matmul_skip_args *a, const float *x, long *from)
{
    long n = 0, f = *from;
    for (; f < a->k && n + LANES <= SP_SKIP_ROOM; f += LANES) n = gather_some(a, x, f, n);
    *from = f;
    return n;
}

/* ------------------------------------------------------------------ the sums */

/* NV vectors of row i of the list, times its element of x. `left` columns are left of w, `end` elements of it from here on. */
INLINE void gather_row(const struct sp_matmul_skip_args *a, const float *x, const float *w, long i, long left,
                       long end, vec *acc, const int NV, const int WHOLE)
{
    const long at = (long)a->crd[i] * a->n;
    const vec times = splat(x[a->crd[i]]);
    UNROLL for (int j = 0; j < NV; j++)
    {
        /* lanes past the last column are never stored: what follows in memory will do, where there is any */
        const float *from = w + at + j * LANES;
        const vec v = WHOLE || at + (j + 1) * LANES <= end ? *(const vec_anywhere *)from
                                                           : load_some(from, left - j * LANES);
        acc[j] += v * times;
    }
}

/* NV vectors of y; TURNS rows of the list are added up side by side. A list that is not the first adds to what is there. */
INLINE void gather_sums(const struct sp_matmul_skip_args *a, const float *x, const float *w, long n, float *y,
                        long left, long end, int more, const int NV, const int WHOLE)
{
    enum { MOST = GATHER_SUMS };
    const int TURNS = GATHER_SUMS / NV;
    vec acc[MOST][MOST];
    long i = 0;
    UNROLL for (int t = 0; t < TURNS; t++) UNROLL for (int j = 0; j < NV; j++) acc[t][j] = splat(0.f);
    for (; i + TURNS <= n; i += TURNS) UNROLL for (int t = 0; t < TURNS; t++)
        {
            const long next = i + t + GATHER_AHEAD < n ? i + t + GATHER_AHEAD : n - 1;
            const char *ahead = (const char *)(w + (long)a->crd[next] * a->n);
            UNROLL for (int j = 0; j < NV * LANES * 4; j += 64) __builtin_prefetch(ahead + j);
            gather_row(a, x, w, i + t, left, end, acc[t], NV, WHOLE);
        }
    for (; i < n; i++) gather_row(a, x, w, i, left, end, acc[0], NV, WHOLE);
    UNROLL for (int t = 1; t < TURNS; t++) UNROLL for (int j = 0; j < NV; j++) acc[0][j] += acc[t][j];
    UNROLL for (int j = 0; j < NV; j++)
    {
        const long some = left - j * LANES;
        if (more) acc[0][j] += load_some(y + j * LANES, some);
        store_some(y + j * LANES, acc[0][j], some);
    }
}

/* Columns [column, to) of one row by one list. */
INLINE void gather_columns(const struct sp_matmul_skip_args *a, const float *x, const float *w, long n,
                           float *y, long column, long to, int more)
{
    while (column < to) {
        const long left = to - column, vectors = (left + LANES - 1) / LANES, end = a->k * a->n - column;
#define GATHER(NV)                                                                                           \
    {                                                                                                        \
        if (left >= (NV)*LANES)                                                                              \
            gather_sums(a, x, w + column, n, y + column, left, end, more, NV, 1);                            \
        else                                                                                                 \
            gather_sums(a, x, w + column, n, y + column, left, end, more, NV, 0);                            \
        column += (NV)*LANES;                                                                                \
    }
        if (vectors >= 8)
            GATHER(8)
        else if (vectors >= 4)
            GATHER(4)
        else if (vectors >= 2)
            GATHER(2)
        else
            GATHER(1)
    }
}

KERNEL void sp_kernel_matmul_skip(const void *args)
{
    const struct sp_matmul_skip_args *a = (const struct sp_matmul_skip_args *)args;
    for (long column = 0; column < a->n; column += a->wide) {
        const long to = column + a->wide < a->n ? column + a->wide : a->n;
        for (long r = a->row0; r < a->row1; r++) {
            const float *x = a->x + r * a->k, *w = a->w + r / a->m * a->item;
            for (long from = 0, lists = 0; from < a->k || !lists; lists++) {
                const long n = gather_list(a, x, &from);
                gather_columns(a, x, w, n, a->y + r * a->n, column, to, lists > 0);
            }
        }
    }
}
