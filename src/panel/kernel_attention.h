/* attention: softmax(scale q k^T + mask) v for the queries of one panel, head by head, without a transpose:
 *
 *   scores    4 scalars = K[d][4 keys]           row = Q[d][queries]     S[key][query], one query a lane
 *   softmax   down the keys of S, no horizontal step
 *   context   4 scalars = V[4 features][key]     row = P[key][queries]   O[feature][query], 1/sum in the epilogue
 *
 * Items (sequences) need not start at a panel's edge. A panel holds the queries of one or more items; each item is done for the
 * vectors its queries lie in, and lanes of other items are left alone when results are stored. Keys are taken in groups of four
 * lanes; lanes of a group that belong to another item are computed and never used. Heads may have fewer rows in q and k than in v, or
 * more, and any number of them: features of a head's v that make no group of four are done one at a time, so that nothing is read
 * or written beyond the head. Parameters: DIM_K, DIM_V (rows of a head in q and k, in v), NAN0.
 */
#ifndef DIM_K
#define DIM_K (a->dim_k)
#define DIM_V (a->dim_v)
#define NAN0  (a->nan_to_zero)
#endif

enum { MASK_NONE, MASK_KEY, MASK_FULL }; /* none; one value a key; one value a query and key */

struct segment { /* the queries of one item in this panel, of one head */
    const float *q, *k, *v, *mask;
    float *o, *scaled, *scores; /* scaled: (dim_k)[64], scores: (keys, from 4-aligned first key)[64] */
    long first, last;           /* key tokens [first, last) */
    long from, to, end;         /* query lanes [from, to); the panel's lanes end at end */
    long base;   /* first lane of the first vector; queries of lane l: from item's query0 + l */
    long query0; /* query index in its item of lane 0 (may be negative) */
};

INLINE vec mask_of(const struct sp_attention_args *a, const struct segment *s, long key, int j,
                   const int mask)
{
    const float *m = s->mask + key * a->mask_key;
    if (mask == MASK_KEY) return splat(*m);
    vec r = splat(0.f);
    for (int l = 0; l < LANES; l++) {
        long lane = s->base + LANES * j + l;
        if (lane >= s->from && lane < s->to) r[l] = m[(s->query0 + lane) * a->mask_query];
    }
    return r;
}

INLINE void scores(const struct sp_attention_args *a, const struct segment *s, vec *top, const int NV,
                   const int mask)
{
    const long start = s->first & ~3L;
    UNROLL for (int j = 0; j < NV; j++) top[j] = splat(-__builtin_inff());
    for (long t = start; t < s->last; t += 4) {
        vec acc[4][4];
        const float *kt = s->k + t / SP_PANEL * a->gap_k + t % SP_PANEL;
        UNROLL for (int r = 0; r < 4; r++) UNROLL for (int j = 0; j < NV; j++) acc[r][j] = splat(0.f);
        for (long d = 0; d < DIM_K; d++) mac(acc, kt + d * SP_PANEL, 1, s->scaled + d * SP_PANEL, NV);
        float *out = s->scores + (t - start) * SP_PANEL;
        const int whole = t >= s->first && t + 4 <= s->last;
        UNROLL for (int r = 0; r < 4; r++)
        {
            if (!whole && (t + r < s->first || t + r >= s->last)) continue;
            UNROLL for (int j = 0; j < NV; j++)
            {
                vec x = acc[r][j];
                if (mask) x += mask_of(a, s, t + r - s->first, j, mask);
                top[j] = larger(x, top[j]);
                store(out + r * SP_PANEL + LANES * j, x);
            }
        }
    }
}

/* Features d to d + R of the head: R is 4, or 1 for those that are left over. */
INLINE void context_rows(const struct sp_attention_args *a, const struct segment *s, const vec *scale, long d,
                         const int R, const int NV)
{
    const float *p = s->scores + (s->first & 3) * SP_PANEL;
    ints lane;
    vec acc[4][4];
    for (int l = 0; l < LANES; l++) lane[l] = l;
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int j = 0; j < NV; j++) acc[r][j] = splat(0.f);
    for (long t = s->first; t < s->last;) {
        const long panel = t / SP_PANEL,
                   end = (panel + 1) * SP_PANEL < s->last ? (panel + 1) * SP_PANEL : s->last;
        const float *v = s->v + panel * a->gap_v + d * SP_PANEL - panel * SP_PANEL;
        for (; t < end; t++) mac_set(acc, (1 << R) - 1, v + t, SP_PANEL, p + (t - s->first) * SP_PANEL, NV);
    }
    UNROLL for (int j = 0; j < NV; j++)
    {
        const long first = s->base + LANES * j;
        const int whole = first >= s->from && (first + LANES <= s->to || s->to == s->end);
        ints at = lane + splat_int((int)first);
        ints mine = (at >= splat_int((int)s->from)) & (at < splat_int((int)s->to));
        UNROLL for (int r = 0; r < R; r++)
        {
            float *o = s->o + (d + r) * SP_PANEL + first;
            vec x = acc[r][j] * scale[j];
            if (NAN0) x = pick(scale[j] != scale[j], splat(0.f), x);
            store(o, whole ? x : pick(mine, x, load(o)));
        }
    }
}

INLINE void context(const struct sp_attention_args *a, const struct segment *s, const vec *scale,
                    const int NV)
{
    long d = 0;
    for (; d + 4 <= DIM_V; d += 4) context_rows(a, s, scale, d, 4, NV);
    for (; d < DIM_V; d++) context_rows(a, s, scale, d, 1, NV);
}

INLINE void attend(const struct sp_attention_args *a, const struct segment *s, const int NV, const int mask)
{
    vec top[4], sum[4];
    for (long d = 0; d < DIM_K; d++)
        UNROLL for (int j = 0; j < NV; j++)
            store(s->scaled + d * SP_PANEL + LANES * j,
                  load(s->q + d * SP_PANEL + s->base + LANES * j) * splat(a->scale));
    scores(a, s, top, NV, mask);
    UNROLL for (int j = 0; j < NV; j++) sum[j] = splat(0.f);
    float *row = s->scores + (s->first & 3) * SP_PANEL;
    for (long t = s->first; t < s->last; t++, row += SP_PANEL) UNROLL for (int j = 0; j < NV; j++)
        {
            vec e = exp2_down((load(row + LANES * j) - top[j]) * splat(1.44269504f));
            sum[j] += e;
            store(row + LANES * j, e);
        }
    UNROLL for (int j = 0; j < NV; j++) sum[j] = splat(1.f) / sum[j];
    context(a, s, sum, NV);
}

KERNEL void sp_kernel_attention(const void *args)
{
    const struct sp_attention_args *a = (const struct sp_attention_args *)args;
    const long count = a->tokens - a->token0 < SP_PANEL ? a->tokens - a->token0 : SP_PANEL;
    const long first = a->token0 / a->queries, last = (a->token0 + count - 1) / a->queries;
    for (long h = a->head0; h < a->head1; h++)
        for (long item = first; item <= last; item++) {
            struct segment s;
            const long rows_k = h * DIM_K * SP_PANEL, rows_v = h * DIM_V * SP_PANEL;
            s.query0 = a->token0 - item * a->queries;
            s.from = s.query0 < 0 ? -s.query0 : 0;
            s.to = a->queries - s.query0 < count ? a->queries - s.query0 : count;
            s.end = count;
            s.base = s.from & ~15L;
            s.q = a->q + rows_k, s.k = a->k + rows_k, s.v = a->v + rows_v, s.o = a->o + rows_v;
            s.mask = a->mask + item * a->mask_item + h * a->mask_head;
            s.first = item * a->keys, s.last = s.first + a->keys;
            s.scaled = a->work, s.scores = a->work + DIM_K * SP_PANEL;
            const long from = s.base;
#define ATTEND(NV, vector)      (s.base = from + (vector)*LANES, attend(a, &s, NV, MASK_KEY))
#define ATTEND_BARE(NV, vector) (s.base = from + (vector)*LANES, attend(a, &s, NV, MASK_NONE))
            if (!a->mask)
                TILES((s.to - from + 15) / 16, ATTEND_BARE)
            else if (a->mask_query == 0)
                TILES((s.to - from + 15) / 16, ATTEND)
            else
                for (s.base = from; s.base < s.to; s.base += LANES) attend(a, &s, 1, MASK_FULL);
        }
}
