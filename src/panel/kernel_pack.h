/* pack: row-major tokens into a panel, 16 x 16 at a time. */
KERNEL void sparta_kernel_pack(const void *args)
{
    const struct sparta_pack_args *a = (const struct sparta_pack_args *)args;
    for (long f = a->f0; f < a->f1; f += 16)
        for (long l0 = 0; l0 < a->count; l0 += 16) {
            v16 r[16];
            const long wide = a->f1 - f < 16 ? a->f1 - f : 16;
            for (int l = 0; l < 16; l++)
                r[l] = l0 + l < a->count ? load_some(a->from + (l0 + l) * a->stride + f, wide) : splat(0.f);
            transpose(r);
            for (long i = 0; i < wide; i++) store(a->to + (f + i) * SPARTA_PANEL + l0, r[i]);
        }
}
