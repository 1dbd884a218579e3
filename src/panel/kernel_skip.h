/* skip: y = w x and its epilogue for tokens in rows, most of whose inputs are 0. Which ones is known only now, so they are listed first:
 *
 *     x of two tokens     . 3 . . 7 . . 1      listed: inputs    1   4   7
 *                         . 2 . . . . . .              values   3 2 7 0 1 0
 *
 * Then each strip of 64 output rows adds up the weights of the inputs listed, 256 bytes for each of them; the other weights are never read. The list
 * says which bytes will be needed, so that they are asked for ahead, as no hardware could guess.
 *
 * Many tokens have all inputs together, so each of a panel has a list of its own, and a strip, which then stays in the cache, is gone through by
 * one after the other.
 *
 * A list has room for SP_SKIP_ROOM inputs. Where there are more, the sums of the next one are added: any number works, up to all of them. A
 * NaN is not 0. A row's sum is taken in the same order whatever part it falls into. Bias and epilogue follow when all of a tile are there.
 *
 * Parameters, constants in a compiled kernel and fields of the arguments in the portable one: TOKENS (as many as are expected; others work, too),
 * and those of epilogue.h.
 */
#ifndef TOKENS
#define TOKENS (a->tokens)
#endif

#define SKIP_SUMS  (LANES == 16 ? 16 : 8) /* vectors of sums that stay in registers */
#define SKIP_AHEAD 16                     /* inputs of the list */

/* ------------------------------------------------------------------ the list */

/* Of inputs [f, f + LANES) of tokens [t, t + NT): -1 where one of them is not 0. */
INLINE ints skip_there(const struct sp_skip_args *a, long t, long f, const int NT)
{
    const vec zero = splat(0.f);
    ints any = splat_int(0);
    UNROLL for (int l = 0; l < NT; l++) if (t + l < a->tokens) any |=
        load_some(a->x + (t + l) * a->k + f, a->k - f) != zero;
    return any;
}

/* Inputs from *from on, until the list is full; how many. *from: where the next list begins. */
INLINE long skip_list(const struct sp_skip_args *a, long t, long *from, const int NT)
{
    long n = 0, f = *from;
    for (; f < a->k && n + LANES <= SP_SKIP_ROOM; f += LANES) {
        const ints there = skip_there(a, t, f, NT);
        UNROLL for (int l = 0; l < LANES; l++)
        {
            a->crd[n] = (unsigned)(f + l);
            n += there[l] & 1;
        }
    }
    *from = f;
    for (long i = 0; i < n; i++)
        UNROLL for (int l = 0; l < NT; l++) a->value[i * NT + l] =
            t + l < a->tokens ? a->x[(t + l) * a->k + a->crd[i]] : 0;
    return n;
}

/* ------------------------------------------------------------------ the product */

/* NV vectors of a strip for NT tokens; `wide` outputs are left of them. A list that is not the first adds to what is there. */
INLINE void skip_sums(const struct sp_skip_args *a, const float *w, long n, float *y, long tokens, long wide,
                      int more, const int NT, const int NV)
{
    vec acc[SP_FEW_TOKENS][16];
    UNROLL for (int t = 0; t < NT; t++) UNROLL for (int j = 0; j < NV; j++) acc[t][j] = splat(0.f);
    for (long i = 0; i < n; i++) {
        const float *row = w + (long)a->crd[i] * SP_SKIP_WIDE, *x = a->value + i * NT;
        const char *next =
            (const char *)(w + (long)a->crd[i + SKIP_AHEAD < n ? i + SKIP_AHEAD : n - 1] * SP_SKIP_WIDE);
        UNROLL for (int j = 0; j < NV * LANES * 4; j += 64) __builtin_prefetch(next + j);
        UNROLL for (int j = 0; j < NV; j++)
        {
            const vec v = *(const vec_anywhere *)(row + j * LANES);
            UNROLL for (int t = 0; t < NT; t++) acc[t][j] += v * splat(x[t]);
        }
    }
    UNROLL for (int t = 0; t < NT; t++) UNROLL for (int j = 0; j < NV; j++)
    {
        const long left = wide - j * LANES;
        float *to = y + t * a->n + j * LANES;
        if (t >= tokens || left <= 0) continue;
        if (more) acc[t][j] += load_some(to, left);
        store_some(to, acc[t][j], left);
    }
}

INLINE void skip_epilogue(const struct sp_skip_args *a, long t)
{
    const float *residual = a->e.residual + t * a->n, *bias = a->e.bias;
    float *y = a->e.y + t * a->n;
    for (long r = a->row0, left; (left = a->row1 - r) > 0; r += LANES) {
        const vec v = load_some(y + r, left) + load_some(bias + r, left);
        store_some(y + r, end_vector(&a->e, v, load_some(residual + r, left)), left);
    }
}

INLINE void skip_tile(const struct sp_skip_args *a, long t, const int NT)
{
    const int NV = SKIP_SUMS / NT < 1                      ? 1
                   : SKIP_SUMS / NT * LANES > SP_SKIP_WIDE ? SP_SKIP_WIDE / LANES
                                                           : SKIP_SUMS / NT;
    const long tokens = a->tokens - t < NT ? a->tokens - t : NT;
    for (long from = 0, lists = 0; from < a->k || !lists; lists++) {
        const long n = skip_list(a, t, &from, NT);
        for (long r = a->row0; r < a->row1; r += NV * LANES) {
            const float *w = a->w + r / SP_SKIP_WIDE * a->k * SP_SKIP_WIDE + r % SP_SKIP_WIDE;
            skip_sums(a, w, n, a->e.y + t * a->n + r, tokens, a->row1 - r, lists > 0, NT, NV);
        }
    }
    for (long i = 0; i < tokens; i++) skip_epilogue(a, t + i);
}

/* Token by token: the lists of all, then strip by strip. */
INLINE void skip_each(const struct sp_skip_args *a)
{
    enum { NV = SP_SKIP_WIDE / LANES };
    struct sp_skip_args one[SP_PANEL];
    long from[SP_PANEL], n[SP_PANEL], more = 1;
    for (long t = 0; t < a->tokens; t++) {
        one[t] = *a;
        one[t].crd += t * SP_SKIP_ROOM, one[t].value += t * SP_SKIP_ROOM;
        from[t] = 0;
    }
    for (long lists = 0; more; lists++) {
        more = 0;
        for (long t = 0; t < a->tokens; t++) {
            n[t] = skip_list(&one[t], t, &from[t], 1);
            more |= from[t] < a->k;
        }
        for (long r = a->row0; r < a->row1; r += NV * LANES) {
            const float *w = a->w + r * a->k;
            for (long t = 0; t < a->tokens; t++)
                skip_sums(&one[t], w, n[t], a->e.y + t * a->n + r, 1, a->row1 - r, lists > 0, 1, NV);
        }
    }
    for (long t = 0; t < a->tokens; t++) skip_epilogue(a, t);
}

KERNEL void sp_kernel_skip(const void *args)
{
    const struct sp_skip_args *a = (const struct sp_skip_args *)args;
    if (a->lists > 1) {
        skip_each(a);
        return;
    }
    const long wide = TOKENS < 8 ? TOKENS : LANES == 16 ? TOKENS : 4;
#define SKIP_TILES(NT)                                                                                       \
    for (long t = 0; t < a->tokens; t += NT) skip_tile(a, t, NT)
    if (wide == 1)
        SKIP_TILES(1);
    else if (wide == 2)
        SKIP_TILES(2);
#if LANES == 16
    else if (wide > 8)
        SKIP_TILES(16);
    else if (wide > 4)
        SKIP_TILES(8);
#endif
    else
        SKIP_TILES(4);
}
