/* attention: softmax(cap(scale q k^T) + mask) v for the queries of one panel, head by head, without a transpose:
 *
 *   scores    4 scalars = K[d][4 keys]           row = Q[d][queries]     S[key][query], one query a lane
 *   softmax   down the keys of S, no horizontal step
 *   context   4 scalars = V[4 features][key]     row = P[key][queries]   O[feature][query], 1/sum in the epilogue
 *
 * Items (sequences) need not start at a panel's edge. A panel holds the queries of one or more items; each item is done for the
 * vectors its queries lie in, and lanes of other items are left alone when results are stored. Keys are taken in groups of four
 * lanes; lanes of a group that belong to another item are computed and never used. Heads may have fewer rows in q and k than in v, or
 * more, and any number of them: features of a head's v that make no group of four are done one at a time, so that nothing is read
 * or written beyond the head.
 *
 * A mask of queries and keys is turned into the layout of the scores first, once for all heads that have the same. With a window (causal:
 * none after a query's own place) only keys that some query of the panel sees are taken, and those of them that another does not see are
 * hidden.
 *
 * With a list (operator Route) the queries of one block are done by themselves, and of the keys those of the blocks that it names: a piece of scores for each,
 *
 *   list of a block of queries   0 3 7         scores | keys of block 0 | of 3 | of 7 |          room for as many blocks as a list has, not for all keys
 *
 * Parameters: DIM_K, DIM_V (rows of a head in q and k, in v), NAN0 (nan_to_zero), WINDOW, CAPPED, MASK, LISTED.
 */
#ifndef DIM_K
#define DIM_K  (a->dim_k)
#define DIM_V  (a->dim_v)
#define NAN0   (a->nan_to_zero)
#define WINDOW (a->window)
#define CAPPED (a->capped)
#define MASK   (a->mask_kind)
#define LISTED (a->listed)
#endif

struct segment { /* the queries of one item in this panel, of one head */
    const float *q, *k, *v;
    const float *mask;          /* of keys */
    float *o, *scaled, *scores; /* scaled: (dim_k)[64], scores: (keys, from 4-aligned first key)[64] */
    float *turned;              /* mask of queries and keys: (keys)[64] */
    long begin;                 /* key token 0 of the item */
    long first, last;           /* key tokens [first, last) that are taken */
    long from, to, end;         /* query lanes [from, to); the panel's lanes end at end */
    long base;   /* first lane of the first vector; queries of lane l: from item's query0 + l */
    long query0; /* query index in its item of lane 0 (may be negative) */
    /* With a list: the blocks of keys that are taken, and the scores of all. */
    int *taken, n, hide;
    float *pieces;
};

/* The keys of piece i: those of the block that is taken as number i, which a number below 0 says to hide. */
INLINE void take(const struct sp_attention_args *a, struct segment *s, long i)
{
    const long number = s->taken[i] < 0 ? ~s->taken[i] : s->taken[i], end = s->begin + a->keys;
    s->hide = s->taken[i] < 0;
    s->first = s->begin + number * a->block;
    s->last = s->first + a->block < end ? s->first + a->block : end;
    s->scores = s->pieces + i * SP_PIECE_ROWS(a->block) * SP_PANEL;
}

/* What is behind it, for each piece of the keys; without a list there is one, which is there already. */
#define PIECES(a, s)                                                                                         \
    for (long piece_ = 0; piece_ < (LISTED ? (s)->n : 1) && (!LISTED || (take(a, s, piece_), 1)); piece_++)

/* The blocks of keys that are taken for the queries of a block. Numbers that do not ascend or are too large do not count. */
INLINE void read_list(const struct sp_attention_args *a, struct segment *s, const int *list)
{
    const long blocks = (a->keys + a->block - 1) / a->block;
    long last = -1;
    s->n = 0;
    for (long i = 0; i < a->room; i++) {
        if (list[i] <= last || list[i] >= blocks) continue;
        if (LISTED == SP_LIST_HIDE)
            while (++last < list[i]) s->taken[s->n++] = ~(int)last;
        s->taken[s->n++] = list[i];
        last = list[i];
    }
    if (LISTED == SP_LIST_HIDE)
        while (++last < blocks) s->taken[s->n++] = ~(int)last;
}

/* m (queries, keys) of an item and head as [key][lane]. */
INLINE void turn(const struct sp_attention_args *a, const struct segment *s, const float *m)
{
    for (long lane = s->from / LANES * LANES; lane < s->to; lane += LANES)
        for (long key = 0; key < a->keys; key += LANES) {
            vec r[LANES];
            UNROLL for (int i = 0; i < LANES; i++)
            {
                const float *at = m + (s->query0 + lane + i) * a->mask_query + key * a->mask_key;
                if (lane + i < s->from || lane + i >= s->to)
                    r[i] = splat(0.f);
                else
                    r[i] = a->mask_key ? load_some(at, a->keys - key) : splat(*at);
            }
            transpose(r);
            UNROLL for (int i = 0; i < LANES; i++) store(s->turned + (key + i) * SP_PANEL + lane, r[i]);
        }
}

/* The keys that some query of NV vectors sees. */
INLINE void look(const struct sp_attention_args *a, struct segment *s, const int NV)
{
    const long place = s->query0 + a->keys - a->queries;
    const long end = s->base + NV * LANES;
    const long low = place + (s->base > s->from ? s->base : s->from) - a->left;
    const long high = place + (end < s->to ? end : s->to) + a->right;
    s->first = s->begin + (low > 0 ? low : 0);
    s->last = s->begin + (high < a->keys ? high : a->keys);
    if (s->last < s->first) s->last = s->first;
}

INLINE ints lanes(void)
{
    ints lane = splat_int(0);
    for (int l = 0; l < LANES; l++) lane[l] = l;
    return lane;
}

/* Which of the lanes from `first` on have queries of this item? */
INLINE ints mine(const struct segment *s, long first)
{
    const ints at = lanes() + splat_int((int)first);
    return (at >= splat_int((int)s->from)) & (at < splat_int((int)s->to));
}

/* x, or what hides it where the key is not seen: it lies `after` keys after the place of lane 0's query. */
INLINE vec hide(vec x, long after, long left, long right, float hidden)
{
    const ints by = splat_int((int)after) - lanes();
    return pick((by > splat_int((int)right)) | (by < splat_int(-(int)left)), splat(hidden), x);
}

INLINE void scores(const struct sp_attention_args *a, const struct segment *s, vec *top, const int NV)
{
    const long start = s->first & ~3L, begin = s->begin, left = a->left, right = a->right;
    const long place =
        s->query0 + s->base + a->keys - a->queries; /* of the first lane's query among the keys */
    const long step = a->mask_key;
    const float hidden = a->hidden, cap = a->cap, one_by_cap = 1 / a->cap;
    const float *const mask = s->mask, *const turned = s->turned + s->base;
    for (long t = start; t < s->last; t += 4) {
        vec acc[4][4];
        const float *kt = s->k + t / SP_PANEL * a->gap_k + t % SP_PANEL;
        UNROLL for (int r = 0; r < 4; r++) UNROLL for (int j = 0; j < NV; j++) acc[r][j] = splat(0.f);
        for (long d = 0; d < DIM_K; d++) mac(acc, kt + d * SP_PANEL, 1, s->scaled + d * SP_PANEL, NV);
        float *out = s->scores + (t - start) * SP_PANEL;
        const int whole = t >= s->first && t + 4 <= s->last;
        /* Does every query see these four? */
        const long after = t - begin - place;
        const int seen = after + 3 <= right && after - NV * LANES >= -left;
        UNROLL for (int r = 0; r < 4; r++)
        {
            const long key = t + r - begin;
            if (!whole && (t + r < s->first || t + r >= s->last)) continue;
            const vec bias = MASK == SP_MASK_KEY ? splat(mask[key * step]) : splat(0.f);
            UNROLL for (int j = 0; j < NV; j++)
            {
                vec x = acc[r][j];
                if (CAPPED) x = splat(cap) * tanhv(x * splat(one_by_cap));
                if (MASK == SP_MASK_KEY) x += bias;
                if (MASK == SP_MASK_FULL) x += load(turned + key * SP_PANEL + LANES * j);
                if (WINDOW && !seen) x = hide(x, after + r - LANES * j, left, right, hidden);
                if (LISTED == SP_LIST_HIDE && s->hide) x = splat(-__builtin_inff());
                top[j] = larger(x, top[j]);
                store(out + r * SP_PANEL + LANES * j, x);
            }
        }
    }
}

/* Has a query no key in its window that the mask leaves it? Then keys outside count as much as those, unless they are hidden by -inf. */
INLINE int lost(const struct sp_attention_args *a, const struct segment *s, const vec *top, const int NV)
{
    ints bad = splat_int(0);
    int some = 0;
    if (a->hidden < -3.4028235e38f || s->last - s->first == a->keys) return 0;
    UNROLL for (int j = 0; j < NV; j++) bad |=
        mine(s, s->base + LANES * j) & ~(top[j] > splat(a->hidden * .5f));
    for (int l = 0; l < LANES; l++) some |= bad[l];
    return some;
}

/* Features d to d + R of the head: R is 4, or 1 for those that are left over. */
INLINE void context_rows(const struct sp_attention_args *a, struct segment *s, const vec *scale, long d,
                         const int R, const int NV)
{
    vec acc[4][4];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int j = 0; j < NV; j++) acc[r][j] = splat(0.f);
    PIECES(a, s)
    {
        const float *p = s->scores + (s->first & 3) * SP_PANEL;
        for (long t = s->first; t < s->last;) {
            const long panel = t / SP_PANEL,
                       end = (panel + 1) * SP_PANEL < s->last ? (panel + 1) * SP_PANEL : s->last;
            const float *v = s->v + panel * a->gap_v + d * SP_PANEL - panel * SP_PANEL;
            for (; t < end; t++)
                mac_set(acc, (1 << R) - 1, v + t, SP_PANEL, p + (t - s->first) * SP_PANEL, NV);
        }
    }
    UNROLL for (int j = 0; j < NV; j++)
    {
        const long first = s->base + LANES * j;
        const int whole = first >= s->from && (first + LANES <= s->to || s->to == s->end);
        UNROLL for (int r = 0; r < R; r++)
        {
            float *o = s->o + (d + r) * SP_PANEL + first;
            vec x = acc[r][j] * scale[j];
            if (NAN0 == 1) x = pick(scale[j] != scale[j], splat(0.f), x);
            if (NAN0 == 2) x = pick(scale[j] == splat(0.f), splat(0.f), x);
            if (whole)
                store(o, x);
            else
                store(o, pick(mine(s, first), x, load(o)));
        }
    }
}

INLINE void context(const struct sp_attention_args *a, struct segment *s, const vec *scale, const int NV)
{
    long d = 0;
    for (; d + 4 <= DIM_V; d += 4) context_rows(a, s, scale, d, 4, NV);
    for (; d < DIM_V; d++) context_rows(a, s, scale, d, 1, NV);
}

/* Functions of their own: constants of one phase would take registers that the loops of another need. */
#define PHASES(NV)                                                                                           \
    static __attribute__((noinline, unused)) void scores_##NV(const struct sp_attention_args *a,             \
                                                              const struct segment *s, vec *top)             \
    {                                                                                                        \
        scores(a, s, top, NV);                                                                               \
    }                                                                                                        \
    static __attribute__((noinline, unused)) void context_##NV(const struct sp_attention_args *a,            \
                                                               struct segment *s, const vec *scale)          \
    {                                                                                                        \
        context(a, s, scale, NV);                                                                            \
    }
PHASES(2)
#if LANES == 16
PHASES(1)
PHASES(3)
PHASES(4)
#define PHASE(name, NV) (NV == 1 ? name##_1 : NV == 2 ? name##_2 : NV == 3 ? name##_3 : name##_4)
#else
#define PHASE(name, NV) name##_2
#endif

INLINE void attend(const struct sp_attention_args *a, struct segment *s, const int NV)
{
    vec top[4], sum[4];
    for (long d = 0; d < DIM_K; d++)
        UNROLL for (int j = 0; j < NV; j++)
            store(s->scaled + d * SP_PANEL + LANES * j,
                  load(s->q + d * SP_PANEL + s->base + LANES * j) * splat(a->scale));
    if (WINDOW && !LISTED) look(a, s, NV);
    for (;;) {
        UNROLL for (int j = 0; j < NV; j++) top[j] = splat(-__builtin_inff());
        PIECES(a, s) PHASE(scores, NV)(a, s, top);
        if (!WINDOW || LISTED || !lost(a, s, top, NV)) break;
        s->first = s->begin;
        s->last = s->begin + a->keys;
    }
    UNROLL for (int j = 0; j < NV; j++)
    {
        /* -inf - -inf would be NaN, as would a score that is: below 0 the sum is 0 where all are -inf, and nowhere else. */
        if (NAN0 == 2) top[j] = pick(top[j] == splat(-__builtin_inff()), splat(0.f), top[j]);
        sum[j] = splat(0.f);
    }
    PIECES(a, s)
    {
        float *row = s->scores + (s->first & 3) * SP_PANEL;
        for (long t = s->first; t < s->last; t++, row += SP_PANEL) UNROLL for (int j = 0; j < NV; j++)
            {
                vec e = exp2_down((load(row + LANES * j) - top[j]) * splat(1.44269504f));
                sum[j] += e;
                store(row + LANES * j, e);
            }
    }
    UNROLL for (int j = 0; j < NV; j++)
    {
        if (NAN0 == 2)
            sum[j] = pick(sum[j] == splat(0.f), splat(__builtin_inff()), sum[j]);
        else if (WINDOW || LISTED)
            sum[j] = pick(sum[j] == splat(0.f), splat(__builtin_nanf("")), sum[j]); /* no key at all */
        sum[j] = splat(1.f) / sum[j];
    }
    PHASE(context, NV)(a, s, sum);
}

/* All queries of a segment, in as many vectors at once as fit. */
INLINE void attend_all(const struct sp_attention_args *a, struct segment *s)
{
    const long from = s->from & ~15L;
#define ATTEND(NV, vector) (s->base = from + (vector)*LANES, attend(a, s, NV))
    TILES((s->to - from + 15) / 16, ATTEND)
}

/* Block by block of the queries of item and head that are at hand. */
INLINE void attend_blocks(const struct sp_attention_args *a, const struct segment *all, long item, long h)
{
    const long rows = (a->queries + a->block - 1) / a->block, end = all->query0 + all->to;
    for (long query = all->query0 + all->from, next; query < end; query = next) {
        struct segment s = *all;
        const long row = query / a->block;
        next = (row + 1) * a->block < end ? (row + 1) * a->block : end;
        s.from = query - all->query0, s.to = next - all->query0;
        read_list(a, &s, a->list + ((item * a->heads + h) * rows + row) * a->room);
        attend_all(a, &s);
    }
}

INLINE void attention(const struct sp_attention_args *a)
{
    const long count = a->tokens - a->token0 < SP_PANEL ? a->tokens - a->token0 : SP_PANEL;
    const long first = a->token0 / a->queries, last = (a->token0 + count - 1) / a->queries;
    for (long item = first; item <= last; item++)
        for (long h = a->head0; h < a->head1; h++) {
            struct segment s;
            const long rows_k = h / a->share * DIM_K * SP_PANEL, rows_v = h / a->share * DIM_V * SP_PANEL;
            s.query0 = a->token0 - item * a->queries;
            s.from = s.query0 < 0 ? -s.query0 : 0;
            s.to = a->queries - s.query0 < count ? a->queries - s.query0 : count;
            s.end = count;
            s.q = a->q + h * DIM_K * SP_PANEL, s.o = a->o + h * DIM_V * SP_PANEL;
            s.k = a->k + rows_k, s.v = a->v + rows_v;
            s.mask = a->mask;
            if (s.mask) s.mask += item % a->mask_items * a->mask_item + h * a->mask_head;
            s.begin = s.first = item * a->keys, s.last = s.first + a->keys;
            s.scaled = a->work, s.scores = s.pieces = a->work + DIM_K * SP_PANEL;
            s.turned = s.scores + a->rows * SP_PANEL;
            s.taken = a->taken;
            if (MASK == SP_MASK_FULL && (h == a->head0 || a->mask_head)) turn(a, &s, s.mask);
            if (LISTED)
                attend_blocks(a, &s, item, h);
            else
                attend_all(a, &s);
        }
}

KERNEL void sp_kernel_attention(const void *args)
{
    attention((const struct sp_attention_args *)args);
}

/* The same, made with LISTED=1: keys that are not listed are skipped. */
KERNEL void sp_kernel_attention_skip(const void *args)
{
    sp_kernel_attention(args);
}
