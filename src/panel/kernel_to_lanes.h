/* to_lanes: row-major tokens into a panel, a square of lanes at a time. Down the features of a few tokens, so that memory is read in that many
 * streams; the panel stays in the cache meanwhile. */
INLINE void to_lanes_square(const struct sp_conversion_args *a, long l0, long f, long high, long wide)
{
    vec r[LANES];
    UNROLL for (int l = 0; l < LANES; l++) r[l] =
        l < high ? load_some(a->tokens + (l0 + l) * a->stride + f, wide) : splat(0.f);
    transpose(r);
    UNROLL for (int i = 0; i < LANES; i++) if (i < wide) store(a->lanes + (f + i) * a->row + l0, r[i]);
}

KERNEL void sp_kernel_to_lanes(const void *args)
{
    const struct sp_conversion_args *a = (const struct sp_conversion_args *)args;
    for (long l0 = 0; l0 < a->count; l0 += LANES) {
        const long high = a->count - l0;
        long f = a->f0;
        if (high >= LANES)
            for (; f + LANES <= a->f1; f += LANES) to_lanes_square(a, l0, f, LANES, LANES);
        for (; f < a->f1; f += LANES) to_lanes_square(a, l0, f, high, a->f1 - f);
    }
}
