/* embed: sums of table rows, one token a lane: rows are read 16 features at a time and turned in registers. */
INLINE void embed_tile(const struct sparta_embed_args *a, long f, long lane0)
{
    v16 r[16];
    const long wide = a->f1 - f < 16 ? a->f1 - f : 16;
    for (int l = 0; l < 16; l++) {
        v16 s = splat(0.f);
        if (lane0 + l < a->count)
            for (long t = 0; t < a->tables; t++)
                s += load_some(a->row[t * SPARTA_PANEL + lane0 + l] + f, wide);
        r[l] = s;
    }
    transpose(r);
    for (long i = 0; i < wide; i++) store(a->y + (f + i) * SPARTA_PANEL + lane0, r[i]);
}

KERNEL void sparta_kernel_embed(const void *args)
{
    const struct sparta_embed_args *a = (const struct sparta_embed_args *)args;
    for (long l = 0; l < a->count; l += 16) /* rows of 16 tokens at a time, each read from front to back */
        for (long f = a->f0; f < a->f1; f += 16) embed_tile(a, f, l);
}
