/* norm: layer normalisation down the rows of a panel, one token a lane.
 *
 * The product before may have left the sum and the sum of squares per lane (stat). Mean and variance from those lose digits when the
 * mean is large against the deviation. Where that could show, as where there are no statistics, a second pass over x - mean finds the
 * variance and by how much the mean is off; that is kept beside the mean, since the sum of both would be rounded:
 *
 *     x = mean + d      d is exact for x near the mean, however large      off = sum d / n      y = (d - off) / deviation
 *
 * so that a row of equal numbers gives 0 exactly.
 */
INLINE void norm_lanes(const struct sp_norm_args *a, const int j)
{
    const float *x = a->x + LANES * j;
    vec sum = splat(0.f), square = splat(0.f), n = splat((float)a->n);
    if (a->has_stat)
        for (long p = 0; p < a->parts; p++) {
            sum += load(a->stat + p * 2 * SP_PANEL + LANES * j);
            square += load(a->stat + (p * 2 + 1) * SP_PANEL + LANES * j);
        }
    else
        for (long i = 0; i < a->n; i++) sum += load(x + i * SP_PANEL);
    vec mean = sum / n, off = splat(0.f), variance = square / n - mean * mean;
    ints sure = variance > mean * mean;
    int all = a->has_stat;
    for (int l = 0; l < LANES; l++) all &= sure[l] != 0;
    if (!all) { /* lane by lane: a token's bits do not depend on its neighbours */
        vec centred = splat(0.f), rest = splat(0.f);
        for (long i = 0; i < a->n; i++) {
            vec d = load(x + i * SP_PANEL) - mean;
            rest += d;
            centred += d * d;
        }
        rest /= n;
        off = pick(sure, off, rest);
        variance = pick(sure, variance, at_least(centred / n - rest * rest, 0.f));
    }
    vec root = variance + splat(a->eps), scale;
    for (int l = 0; l < LANES; l++) root[l] = __builtin_sqrtf(root[l]);
    scale = splat(1.f) / root;
    for (long i = a->row0; i < a->row1; i++)
        store(a->y + i * SP_PANEL + LANES * j,
              (load(x + i * SP_PANEL) - mean - off) * scale * splat(a->gain[i]) + splat(a->shift[i]));
}

KERNEL void sp_kernel_norm(const void *args)
{
    const struct sp_norm_args *a = (const struct sp_norm_args *)args;
    for (int j = 0; j < a->vectors * SPLIT; j++) norm_lanes(a, j);
}
