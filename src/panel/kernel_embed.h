/* embed: sums of table rows, one token a lane: rows are read a square at a time and turned in registers. */
INLINE void embed_tile(const struct sp_embed_args *a, long f, long lane0)
{
    vec r[LANES];
    const long wide = a->f1 - f < LANES ? a->f1 - f : LANES;
    for (int l = 0; l < LANES; l++) {
        vec s = splat(0.f);
        if (lane0 + l < a->count)
            for (long t = 0; t < a->tables; t++) s += load_some(a->row[t * SP_PANEL + lane0 + l] + f, wide);
        r[l] = s;
    }
    transpose(r);
    for (long i = 0; i < wide; i++) store(a->y + (f + i) * SP_PANEL + lane0, r[i]);
}

KERNEL void sp_kernel_embed(const void *args)
{
    const struct sp_embed_args *a = (const struct sp_embed_args *)args;
    for (long l = 0; l < a->count;
         l += LANES) /* rows of a few tokens at a time, each read from front to back */
        for (long f = a->f0; f < a->f1; f += LANES) embed_tile(a, f, l);
}
