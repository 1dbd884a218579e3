/* sparta kernel
 *     name: rows_of_csr
 *     op: Linear
 *     format: csr
 *     when: density < 0.3
 */

/* The text of a kernel, not a program: the sums of a linear layer whose weight is stored row by row. Tokens lie side by side, 64 floats from one
 * input to the next; vec is LANES of them, whatever the target has. Each row is added up for NV vectors of tokens at once.
 *
 *     sparta compile model.onnx --kernel kernel.c -o model.sparta
 */
INLINE void row(const struct sparta_product *p, long i, long t, const int NV)
{
    const int *pos = p->part[0].pos[1], *crd = p->part[0].crd[1];
    const float *w = p->part[0].w;
    vec sum[4];
    UNROLL for (int v = 0; v < NV; v++) sum[v] = splat(0.f);
    for (int at = pos[i]; at < pos[i + 1]; at++)
        UNROLL for (int v = 0; v < NV; v++) sum[v] +=
            splat(w[at]) * load(p->x + 64 * crd[at] + t + v * LANES);
    UNROLL for (int v = 0; v < NV; v++) store(p->y + 64 * i + t + v * LANES, sum[v]);
}

static void product(const struct sparta_product *p)
{
    for (long i = 0; i < p->n; i++) {
        long t = 0;
        for (; t + 4 * LANES <= p->tokens; t += 4 * LANES) row(p, i, t, 4);
        for (; t < p->tokens; t += LANES) row(p, i, t, 1);
    }
}
