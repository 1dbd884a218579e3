/* unpack: a panel into row-major tokens, 16 x 16 at a time. */
KERNEL void sparta_kernel_unpack(const void *args)
{
    const struct sparta_pack_args *a = (const struct sparta_pack_args *)args;
    for (long f = a->f0; f < a->f1; f += 16)
        for (long l0 = 0; l0 < a->count; l0 += 16) {
            v16 r[16];
            const long wide = a->f1 - f < 16 ? a->f1 - f : 16;
            for (long i = 0; i < 16; i++)
                r[i] = i < wide ? load(a->from + (f + i) * SPARTA_PANEL + l0) : splat(0.f);
            transpose(r);
            for (int l = 0; l < 16 && l0 + l < a->count; l++)
                store_some(a->to + (l0 + l) * a->stride + f, r[l], wide);
        }
}
