/* to_rows: a panel into row-major tokens, a square of lanes at a time, in the order of to_lanes. */
INLINE void to_rows_square(const struct sp_conversion_args *a, long l0, long f, long high, long wide)
{
    vec r[LANES];
    UNROLL for (int i = 0; i < LANES; i++) r[i] =
        i < wide ? load(a->lanes + (f + i) * a->row + l0) : splat(0.f);
    transpose(r);
    UNROLL for (int l = 0; l < LANES; l++) if (l < high)
        store_some(a->tokens + (l0 + l) * a->stride + f, r[l], wide);
}

KERNEL void sp_kernel_to_rows(const void *args)
{
    const struct sp_conversion_args *a = (const struct sp_conversion_args *)args;
    for (long l0 = 0; l0 < a->count; l0 += LANES) {
        const long high = a->count - l0;
        long f = a->f0;
        if (high >= LANES)
            for (; f + LANES <= a->f1; f += LANES) to_rows_square(a, l0, f, LANES, LANES);
        for (; f < a->f1; f += LANES) to_rows_square(a, l0, f, high, a->f1 - f);
    }
}
