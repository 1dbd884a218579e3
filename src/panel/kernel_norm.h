/* norm: layer normalisation down the rows of a panel, one token a lane.
 *
 * The product before may have left the sum and the sum of squares per lane (stat). The variance from those loses digits when the
 * mean is large against the deviation; where that could show, the centred sum is taken in a second pass, as it is when
 * there are no statistics.
 */
INLINE void norm_lanes(const struct sparta_norm_args *a, const int j)
{
    const float *x = a->x + 16 * j;
    v16 sum = splat(0.f), square = splat(0.f), n = splat((float)a->n);
    if (a->has_stat)
        for (long p = 0; p < a->parts; p++) {
            sum += load(a->stat + p * 2 * SPARTA_PANEL + 16 * j);
            square += load(a->stat + (p * 2 + 1) * SPARTA_PANEL + 16 * j);
        }
    else
        for (long i = 0; i < a->n; i++) sum += load(x + i * SPARTA_PANEL);
    v16 mean = sum / n, variance = square / n - mean * mean;
    i16 sure = variance > mean * mean;
    int all = a->has_stat;
    for (int l = 0; l < 16; l++) all &= sure[l] != 0;
    if (!all) {
        v16 centred = splat(0.f);
        for (long i = 0; i < a->n; i++) {
            v16 d = load(x + i * SPARTA_PANEL) - mean;
            centred += d * d;
        }
        variance = pick(sure, variance,
                        centred / n); /* lane by lane: a token's bits do not depend on its neighbours */
    }
    v16 root = variance + splat(a->eps), scale;
    for (int l = 0; l < 16; l++) root[l] = __builtin_sqrtf(root[l]);
    scale = splat(1.f) / root;
    for (long i = a->row0; i < a->row1; i++)
        store(a->y + i * SPARTA_PANEL + 16 * j,
              (load(x + i * SPARTA_PANEL) - mean) * scale * splat(a->gain[i]) + splat(a->shift[i]));
}

KERNEL void sparta_kernel_norm(const void *args)
{
    const struct sparta_norm_args *a = (const struct sparta_norm_args *)args;
    for (int j = 0; j < a->vectors; j++) norm_lanes(a, j);
}
