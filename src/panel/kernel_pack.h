/* pack: row-major tokens into a panel, a square of lanes at a time. */
KERNEL void sp_kernel_pack(const void *args)
{
    const struct sp_pack_args *a = (const struct sp_pack_args *)args;
    for (long f = a->f0; f < a->f1; f += LANES)
        for (long l0 = 0; l0 < a->count; l0 += LANES) {
            vec r[LANES];
            const long wide = a->f1 - f < LANES ? a->f1 - f : LANES;
            for (int l = 0; l < LANES; l++)
                r[l] = l0 + l < a->count ? load_some(a->tokens + (l0 + l) * a->stride + f, wide) : splat(0.f);
            transpose(r);
            for (long i = 0; i < wide; i++) store(a->lanes + (f + i) * a->row + l0, r[i]);
        }
}
