/* norm: layer normalisation down the rows of a panel, one token a lane.
 *
 * The product before may have left the sum and the sum of squares per lane (stat). The variance from those loses digits when the
 * mean is large against the deviation; where that could show, the centred sum is taken in a second pass, as it is when
 * there are no statistics.
 */
INLINE void norm_lanes(const struct sparta_norm_args *a, const int j)
{
    const float *x = a->x + LANES * j;
    vec sum = splat(0.f), square = splat(0.f), n = splat((float)a->n);
    if (a->has_stat)
        for (long p = 0; p < a->parts; p++) {
            sum += load(a->stat + p * 2 * SPARTA_PANEL + LANES * j);
            square += load(a->stat + (p * 2 + 1) * SPARTA_PANEL + LANES * j);
        }
    else
        for (long i = 0; i < a->n; i++) sum += load(x + i * SPARTA_PANEL);
    vec mean = sum / n, variance = square / n - mean * mean;
    ints sure = variance > mean * mean;
    int all = a->has_stat;
    for (int l = 0; l < LANES; l++) all &= sure[l] != 0;
    if (!all) {
        vec centred = splat(0.f);
        for (long i = 0; i < a->n; i++) {
            vec d = load(x + i * SPARTA_PANEL) - mean;
            centred += d * d;
        }
        variance = pick(sure, variance,
                        centred / n); /* lane by lane: a token's bits do not depend on its neighbours */
    }
    vec root = variance + splat(a->eps), scale;
    for (int l = 0; l < LANES; l++) root[l] = __builtin_sqrtf(root[l]);
    scale = splat(1.f) / root;
    for (long i = a->row0; i < a->row1; i++)
        store(a->y + i * SPARTA_PANEL + LANES * j,
              (load(x + i * SPARTA_PANEL) - mean) * scale * splat(a->gain[i]) + splat(a->shift[i]));
}

KERNEL void sparta_kernel_norm(const void *args)
{
    const struct sparta_norm_args *a = (const struct sparta_norm_args *)args;
    for (int j = 0; j < a->vectors * SPLIT; j++) norm_lanes(a, j);
}
