/* rotary: pairs of rows of each head turned by the angle of their token, which is their lane: row `first` and the one `apart` further on.
 *
 *     y1 = cos x1 - sin x2      y2 = sin x1 + cos x2      rows of a head beyond 2 half are copied
 */
INLINE void turn_pair(const struct sp_rotary_args *a, const float *x, float *y, long i, long apart, long j)
{
    const vec c = load(a->cos + i * SP_PANEL + LANES * j), s = load(a->sin + i * SP_PANEL + LANES * j);
    const vec x1 = load(x + LANES * j), x2 = load(x + apart * SP_PANEL + LANES * j);
    store(y + LANES * j, c * x1 - s * x2);
    store(y + apart * SP_PANEL + LANES * j, s * x1 + c * x2);
}

KERNEL void sp_kernel_rotary(const void *args)
{
    const struct sp_rotary_args *a = (const struct sp_rotary_args *)args;
    const long vectors = a->vectors * SPLIT, apart = a->interleaved ? 1 : a->half;
    for (long h = a->head0; h < a->head1; h++) {
        const float *x = a->x + h * a->dim * SP_PANEL;
        float *y = a->y + h * a->dim * SP_PANEL;
        for (long i = 0; i < a->half; i++) {
            const long first = (a->interleaved ? 2 * i : i) * SP_PANEL;
            for (long j = 0; j < vectors; j++) turn_pair(a, x + first, y + first, i, apart, j);
        }
        for (long i = 2 * a->half; i < a->dim; i++)
            for (long j = 0; j < vectors; j++)
                store(y + i * SP_PANEL + LANES * j, load(x + i * SP_PANEL + LANES * j));
    }
}
