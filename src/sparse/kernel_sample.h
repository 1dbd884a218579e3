/* Sampled products of one row of blocks.
 *
 *   wide      S(4 rows, 64 columns) += a(4 rows, f) c(f, 64 columns): the step of the products, f after f
 *   narrow    4 rows and 4 columns (AVX2: 2), each with lanes of f; the lanes of the 16 sums are added up at the end
 */

INLINE void wide_tile(const sp_sampling *s, const float *c, float *to, long r0, const int NR, const int NV)
{
    const float *a = s->a + r0 * s->a_row;
    vec acc[4][4];
    EACH_SUM(NR, NV) acc[r][j] = splat(0.f);
    for (long f = 0; f < s->free; f++, a += s->a_free, c += s->c_free) mac_rows(acc, a, s->a_row, c, NR, NV);
    EACH_SUM(NR, NV) put_lanes(to + (r0 + r) * s->width + LANES * j, acc[r][j] * splat(s->scale));
}

INLINE void wide_rows(const sp_sampling *s, const float *c, float *to, long groups, long r0, const int NR)
{
#define TILE(NV, vector) wide_tile(s, c + (vector)*LANES, to + (vector)*LANES, r0, NR, NV)
    TILES(groups, TILE)
#undef TILE
}

static void sample_wide(const sp_sampling *s)
{
    for (long i = 0; i < s->blocks; i++)
        for (long k = 0; k < s->width; k += 64) {
            const float *c = s->c + s->crd[i] * s->c_block + k;
            float *to = s->values + i * s->height * s->width + k;
            const long groups = s->width - k < 64 ? (s->width - k) / 16 : 4;
            long r0 = 0;
            for (; r0 + 4 <= s->high; r0 += 4) wide_rows(s, c, to, groups, r0, 4);
            for (; r0 < s->high; r0++) wide_rows(s, c, to, groups, r0, 1);
        }
}

/* ------------------------------------------------------------------ narrow */

/* Lane i of the result is the sum of the lanes of v[i]. */
INLINE vec lane_sums(vec v[LANES])
{
    UNROLL for (int n = LANES / 2; n > 0; n /= 2) UNROLL for (int i = 0; i < n; i++) v[i] =
        __builtin_shufflevector(v[i], v[i + n], LOW) + __builtin_shufflevector(v[i], v[i + n], HIGH);
    return v[0];
}

/* NR rows from a on times NC columns: acc[column * step + row] */
INLINE void narrow_sums(const sp_sampling *s, const float *a, const float *const *columns, vec *acc,
                        const int step, const int NR, const int NC)
{
    const float *c[4];
    UNROLL for (int k = 0; k < NC; k++) c[k] = columns[k];
    UNROLL for (int k = 0; k < NC; k++) UNROLL for (int r = 0; r < NR; r++) acc[k * step + r] = splat(0.f);
    long f = 0;
    for (; f + LANES <= s->free; f += LANES) {
        vec q[4];
        UNROLL for (int r = 0; r < NR; r++) q[r] = lanes_at(a + r * s->a_row + f);
        UNROLL for (int k = 0; k < NC; k++)
        {
            vec b = lanes_at(c[k] + f);
            PIN(b);
            UNROLL for (int r = 0; r < NR; r++) acc[k * step + r] += q[r] * b;
        }
    }
    if (f < s->free) UNROLL for (int k = 0; k < NC; k++)
        {
            const vec b = load_some(c[k] + f, s->free - f);
            UNROLL for (int r = 0; r < NR; r++) acc[k * step + r] +=
                load_some(a + r * s->a_row + f, s->free - f) * b;
        }
}

/* Blocks of one column whose NR rows make LANES values with those that follow them: they are stored as they are summed up. */
INLINE void narrow_strips(const sp_sampling *s, const int NR)
{
    const int NC = LANES / NR, G = NC < 4 ? NC : 4;
    for (long i = 0; i < s->blocks; i += NC) {
        const long n = s->blocks - i < NC ? s->blocks - i : NC;
        const float *c[LANES];
        vec acc[LANES];
        UNROLL for (int k = 0; k < NC; k++) c[k] = s->c + s->crd[k < n ? i + k : i] * s->c_column;
        UNROLL for (int k = 0; k < NC; k += G) narrow_sums(s, s->a, c + k, acc + k * NR, NR, NR, G);
        float *to = s->values + i * NR;
        store_some(to, lane_sums(acc) * splat(s->scale), n * NR);
    }
}

/* Blocks of any size. NR rows from r0 on, all columns, a few at a time: those of a block, then those of the next. */
INLINE void narrow_rows(const sp_sampling *s, long r0, const int NR)
{
    const int NC = LANES / 4;
    const long all = s->blocks * s->width;
    long block = 0, k = 0;
    for (long done = 0; done < all; done += NC) {
        const float *c[LANES / 4];
        float *to[LANES / 4], out[LANES];
        vec acc[LANES];
        const long n = all - done < NC ? all - done : NC;
        UNROLL for (int i = 0; i < NC; i++) c[i] = s->c,
                                            to[i] = s->values; /* where there are fewer they are not used */
        for (long i = 0; i < n; i++) {
            const long col = s->crd[block] * s->width + k;
            c[i] = s->c +
                   (col < s->cols ? col : 0) * s->c_column; /* over the edge: read another, it is cleared */
            to[i] = s->values + (block * s->height + r0) * s->width + k;
            if (++k == s->width) k = 0, block++;
        }
        UNROLL for (int i = 0; i < LANES; i++) acc[i] = splat(0.f);
        narrow_sums(s, s->a + r0 * s->a_row, c, acc, 4, NR, NC);
        put_lanes(out, lane_sums(acc) * splat(s->scale));
        for (long i = 0; i < n; i++) UNROLL for (int r = 0; r < NR; r++) to[i][r * s->width] = out[i * 4 + r];
    }
}

static void sample_narrow(const sp_sampling *s)
{
    long r0 = 0;
    if (s->width == 1 && s->high == s->height && s->height <= 4 && s->height != 3) {
        switch (s->height) {
        case 1: narrow_strips(s, 1); break;
        case 2: narrow_strips(s, 2); break;
        default: narrow_strips(s, 4); break;
        }
        return;
    }
    for (; r0 + 4 <= s->high; r0 += 4) narrow_rows(s, r0, 4);
    switch (s->high - r0) {
    case 1: narrow_rows(s, r0, 1); break;
    case 2: narrow_rows(s, r0, 2); break;
    case 3: narrow_rows(s, r0, 3); break;
    default: break;
    }
}
