/* rms: y = x / sqrt(mean of x^2 + eps) * gain down the rows of a panel, one token a lane. The product before may have left the sum of squares
 * per lane (stat); it is a sum of what is not negative, so that it loses no digits. */
INLINE void rms_lanes(const struct sp_norm_args *a, const int j)
{
    const float *x = a->x + LANES * j;
    vec square = splat(0.f);
    if (a->has_stat)
        for (long p = 0; p < a->parts; p++) square += load(a->stat + (p * 2 + 1) * SP_PANEL + LANES * j);
    else {
        vec more = splat(0.f); /* two sums: one would wait for itself */
        long i = 0;
        for (; i + 2 <= a->n; i += 2) {
            const vec u = load(x + i * SP_PANEL), v = load(x + (i + 1) * SP_PANEL);
            square += u * u;
            more += v * v;
        }
        if (i < a->n) square += load(x + i * SP_PANEL) * load(x + i * SP_PANEL);
        square += more;
    }
    vec root = square / splat((float)a->n) + splat(a->eps);
    for (int l = 0; l < LANES; l++) root[l] = __builtin_sqrtf(root[l]);
    const vec scale = splat(1.f) / root;
    for (long i = a->row0; i < a->row1; i++)
        store(a->y + i * SP_PANEL + LANES * j, load(x + i * SP_PANEL) * scale * splat(a->gain[i]));
}

KERNEL void sp_kernel_rms(const void *args)
{
    const struct sp_norm_args *a = (const struct sp_norm_args *)args;
    for (int j = 0; j < a->vectors * SPLIT; j++) rms_lanes(a, j);
}
