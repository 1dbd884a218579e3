/* unpack: a panel into row-major tokens, a square of lanes at a time. */
KERNEL void sp_kernel_unpack(const void *args)
{
    const struct sp_pack_args *a = (const struct sp_pack_args *)args;
    for (long f = a->f0; f < a->f1; f += LANES)
        for (long l0 = 0; l0 < a->count; l0 += LANES) {
            vec r[LANES];
            const long wide = a->f1 - f < LANES ? a->f1 - f : LANES;
            for (long i = 0; i < LANES; i++)
                r[i] = i < wide ? load(a->lanes + (f + i) * a->row + l0) : splat(0.f);
            transpose(r);
            for (int l = 0; l < LANES && l0 + l < a->count; l++)
                store_some(a->tokens + (l0 + l) * a->stride + f, r[l], wide);
        }
}
