/* How a product ends, the same in every kernel: the bias, the words of its epilogue in order, the statistics for a normalisation that
 * follows, the store. Stands in every generated text after vector.h.
 *
 * The bias comes when all is summed up: a sum that began with it would round every term to the digits of a large bias.
 *
 * Parameters, constants in a compiled kernel and fields of the arguments in the portable one: EPILOGUE, an expression of v such as
 * word_relu(word_add(v,residual)), and STAT.
 */
#define word_add(v, residual) ((v) + (residual))
#define word_relu(v)          at_least(v, 0.f)
#define word_gelu(v)          gelu(v)
#define word_gelu_tanh(v)     gelu_tanh(v)
#define word_tanh(v)          tanhv(v)
#define word_sigmoid(v)       sigmoid(v)
#define word_mul(v, residual) ((v) * (residual))
#define word_silu(v)          swish(v, 1.f)
#define word_quick_gelu(v)    swish(v, 1.702f)

#ifndef EPILOGUE
#define EPILOGUE end_list(e, v, residual)
#define STAT     (e->stat != 0)
#endif

INLINE vec end_list(const struct sp_epilogue *e, vec v, vec residual)
{
    for (int i = 0; i < e->n; i++) switch (e->word[i]) {
        case SP_END_ADD: v = word_add(v, residual); break;
        case SP_END_RELU: v = word_relu(v); break;
        case SP_END_GELU: v = word_gelu(v); break;
        case SP_END_GELU_TANH: v = word_gelu_tanh(v); break;
        case SP_END_TANH: v = word_tanh(v); break;
        case SP_END_SIGMOID: v = word_sigmoid(v); break;
        case SP_END_MUL: v = word_mul(v, residual); break;
        case SP_END_SILU: v = word_silu(v); break;
        case SP_END_QUICK_GELU: v = word_quick_gelu(v); break;
        default: break; /* the bias: it is in v */
        }
    return v;
}

INLINE vec end_vector(const struct sp_epilogue *e, vec v, vec residual)
{
    (void)e, (void)residual;
    return EPILOGUE;
}

/* Before the first of the rows. */
INLINE void end_begin(const struct sp_epilogue *e)
{
    if (STAT)
        for (int i = 0; i < 2 * SP_PANEL; i++) e->stat[i] = 0;
}

/* The bias and the words on NR rows of NV vectors of sums, from output row `row` and lane `base` on, and what they add to the statistics. */
INLINE void end_sums(const struct sp_epilogue *e, vec (*acc)[4], long row, const int NR, const int NV,
                     long base)
{
    const float *residual = e->residual + row * SP_PANEL + base;
    UNROLL for (int j = 0; j < NV; j++)
    {
        vec sum = splat(0.f), square = splat(0.f);
        UNROLL for (int r = 0; r < NR; r++)
        {
            const vec v =
                end_vector(e, acc[r][j] + splat(e->bias[row + r]), load(residual + r * SP_PANEL + LANES * j));
            sum += v;
            square += v * v;
            acc[r][j] = v;
        }
        if (STAT) {
            float *stat = e->stat + base + LANES * j;
            store(stat, load(stat) + sum);
            store(stat + SP_PANEL, load(stat + SP_PANEL) + square);
        }
    }
}
INLINE void end_store(const struct sp_epilogue *e, vec (*acc)[4], long row, const int NR, const int NV,
                      long base)
{
    float *y = e->y + row * SP_PANEL + base;
    UNROLL for (int j = 0; j < NV; j++) UNROLL for (int r = 0; r < NR; r++)
        store(y + r * SP_PANEL + LANES * j, acc[r][j]);
}
INLINE void end_rows(const struct sp_epilogue *e, vec (*acc)[4], long row, const int NR, const int NV,
                     long base)
{
    end_sums(e, acc, row, NR, NV, base);
    end_store(e, acc, row, NR, NV, base);
}

/* The same for n rows of sums that lie in y already, on vectors (of 16 tokens) [vector0, vector0 + vectors). */
INLINE void end_stored_rows(const struct sp_epilogue *e, long row, const int NR, const int NV, long base)
{
    vec acc[4][4];
    const float *y = e->y + row * SP_PANEL + base;
    UNROLL for (int r = 0; r < NR; r++) UNROLL for (int j = 0; j < NV; j++) acc[r][j] =
        load(y + r * SP_PANEL + LANES * j);
    end_rows(e, acc, row, NR, NV, base);
}
INLINE void end_stored(const struct sp_epilogue *e, long n, long vector0, long vectors)
{
    long row = 0;
#define END_FOUR(NV, vector) end_stored_rows(e, row, 4, NV, vector0 * 16 + (vector)*LANES)
#define END_ONE(NV, vector)  end_stored_rows(e, row, 1, NV, vector0 * 16 + (vector)*LANES)
    for (; row + 4 <= n; row += 4) TILES(vectors, END_FOUR)
    for (; row < n; row++) TILES(vectors, END_ONE)
#undef END_FOUR
#undef END_ONE
}
