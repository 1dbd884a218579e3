/* attention_rows: softmax(cap(scale q k^T) + mask) v with tokens in rows, for few queries and many keys: one token of a decoder and its cache.
 *
 * Heads of q that share a head of k and v are the rows of one small product, ROWS of them at a time:
 *
 *   scores    K turned, LANES keys side by side:  T[d][keys]      S[row][keys] += q[row][d] T[d]
 *   softmax   along the keys of a row
 *   context   LANES features of V side by side:   V[key][lanes]   O[row][lanes] += P[row][key] V[key]
 *
 * so that k and v are read once for all of them, where they lie: as (keys, heads*d), or as a cache has them, (heads, keys, d), with any room behind the
 * last key. What a window hides from all queries at hand is not read, unless it counts when all else is hidden as well.
 * Parameters: as kernel_attention.h.
 */
#ifndef DIM_K
#define DIM_K  (a->dim_k)
#define DIM_V  (a->dim_v)
#define NAN0   (a->nan_to_zero)
#define WINDOW (a->window)
#define CAPPED (a->capped)
#define MASK   (a->mask_kind)
#endif

enum { ROWS = 8 };

struct rows { /* queries of one item that share a head of k and v */
    const float *q[ROWS], *mask[ROWS];
    float *o[ROWS];
    long place[ROWS];   /* among the keys */
    const float *k, *v; /* of their head */
    float *turned;      /* [dim_k][LANES] */
    float *scores;      /* [ROWS][room] */
    long room;          /* keys, up to whole vectors and one more */
    long first, last;   /* keys [first, last) are taken */
    float one_by_sum[ROWS];
    int n;
};

INLINE float sum_of(vec x)
{
    float s = 0;
    for (int l = 0; l < LANES; l++) s += x[l];
    return s;
}
INLINE float largest_of(vec x)
{
    float s = x[0];
    for (int l = 1; l < LANES; l++) s = x[l] > s || x[l] != x[l] ? x[l] : s;
    return s;
}

/* LANES keys from `key` on as [d][keys]; those past the last are zeros. */
INLINE void turn(const struct sp_attention_args *a, const struct rows *s, long key)
{
    const long keys = s->last - key < LANES ? s->last - key : LANES;
    for (long d = 0; d < DIM_K; d += LANES) {
        vec r[LANES];
        const long some = DIM_K - d;
        UNROLL for (int i = 0; i < LANES; i++) r[i] =
            i < keys ? load_some(s->k + (key + i) * a->k_key + d, some) : splat(0.f);
        transpose(r);
        UNROLL for (int i = 0; i < LANES; i++) if (i < some) store(s->turned + (d + i) * LANES, r[i]);
    }
}

/* What is added to the scores of a row from `key` on. */
INLINE vec bias(const struct sp_attention_args *a, const float *mask, long key)
{
    return a->mask_key ? load_some(mask + key, a->keys - key) : splat(*mask);
}

/* Scores of R rows from `row` on and the keys that are turned. */
INLINE void score(const struct sp_attention_args *a, const struct rows *s, int row, long key, const int R)
{
    vec acc[ROWS];
    ints lane = splat_int(0);
    for (int l = 0; l < LANES; l++) lane[l] = l;
    const ints beyond = lane >= splat_int((int)(s->last - key < LANES ? s->last - key : LANES));
    UNROLL for (int r = 0; r < R; r++) acc[r] = splat(0.f);
    for (long d = 0; d < DIM_K; d++) {
        const vec t = load(s->turned + d * LANES);
        UNROLL for (int r = 0; r < R; r++) acc[r] += splat(s->q[row + r][d]) * t;
    }
    UNROLL for (int r = 0; r < R; r++)
    {
        vec x = acc[r] * splat(a->scale);
        if (CAPPED) x = splat(a->cap) * tanhv(x * splat(1 / a->cap));
        if (MASK != SP_MASK_NONE) x += bias(a, s->mask[row + r], key);
        if (WINDOW) {
            const ints by = lane + splat_int((int)(key - s->place[row + r]));
            x = pick((by > splat_int((int)a->right)) | (by < splat_int(-(int)a->left)), splat(a->hidden), x);
        }
        store(s->scores + (row + r) * s->room + key - s->first, pick(beyond, splat(-__builtin_inff()), x));
    }
}

INLINE void softmax(const struct sp_attention_args *a, struct rows *s, int row)
{
    const long n = s->last - s->first;
    float *x = s->scores + row * s->room;
    vec top = splat(-__builtin_inff()), sum = splat(0.f);
    for (long t = 0; t < n; t += LANES) top = larger(load(x + t), top);
    const float largest = largest_of(top);
    /* As in kernel_attention.h. */
    const vec most = splat(NAN0 == 2 && largest == -__builtin_inff() ? 0 : largest);
    for (long t = 0; t < n; t += LANES) {
        const vec e = exp2_down((load(x + t) - most) * splat(1.44269504f));
        sum += e;
        store(x + t, e);
    }
    const float all = sum_of(sum);
    s->one_by_sum[row] = all == 0 && NAN0 == 2 ? 0
                         : n > 0               ? 1 / all
                                               : __builtin_nanf(""); /* a window without keys */
}

/* NV vectors of features from d on, `some` of them there, of R rows. */
INLINE void context(const struct sp_attention_args *a, const struct rows *s, int row, long d, const int R,
                    const int NV)
{
    vec acc[ROWS][2];
    const long some = DIM_V - d;
    const float *p = s->scores + row * s->room, *v = s->v + s->first * a->v_key + d;
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int j = 0; j < NV; j++) acc[r][j] = splat(0.f);
    for (long t = 0; t < s->last - s->first; t++, v += a->v_key) {
        vec x[2];
        UNROLL for (int j = 0; j < NV; j++) x[j] = load_some(v + j * LANES, some - j * LANES);
        UNROLL for (int r = 0; r < R; r++) UNROLL for (int j = 0; j < NV; j++) acc[r][j] +=
            splat(p[r * s->room + t]) * x[j];
    }
    UNROLL for (int r = 0; r < R; r++)
    {
        const float by = s->one_by_sum[row + r];
        UNROLL for (int j = 0; j < NV; j++)
        {
            vec y = acc[r][j] * splat(by);
            if ((NAN0 == 2 && by == 0) || (NAN0 == 1 && by != by)) y = splat(0.f);
            store_some(s->o[row + r] + d + j * LANES, y, some - j * LANES);
        }
    }
}

/* Four rows at a time, then one by one. */
#define BY_ROWS(s, CALL)                                                                                     \
    {                                                                                                        \
        int row_ = 0;                                                                                        \
        for (; row_ + 4 <= (s)->n; row_ += 4) CALL(row_, 4);                                                 \
        for (; row_ < (s)->n; row_++) CALL(row_, 1);                                                         \
    }

INLINE void attend(const struct sp_attention_args *a, struct rows *s)
{
    for (long key = s->first; key < s->last; key += LANES) {
        turn(a, s, key);
#define SCORE(row, R) score(a, s, row, key, R)
        BY_ROWS(s, SCORE)
    }
    for (int row = 0; row < s->n; row++) softmax(a, s, row);
    long d = 0;
    for (; d + 2 * LANES <= DIM_V; d += 2 * LANES) {
#define CONTEXT_2(row, R) context(a, s, row, d, R, 2)
        BY_ROWS(s, CONTEXT_2)
    }
    for (; d < DIM_V; d += LANES) {
#define CONTEXT_1(row, R) context(a, s, row, d, R, 1)
        BY_ROWS(s, CONTEXT_1)
    }
}

/* The keys that some query from place `first` up to `last` sees. Where what is hidden still counts (a finite number), all of them. For all queries at
 * hand together: sums of a row do not depend on which others a thread has. */
INLINE void look(const struct sp_attention_args *a, struct rows *s, long first, long last)
{
    const int all = !WINDOW || a->hidden >= -3.4028235e38f;
    const long low = first - a->left, high = last + a->right;
    s->first = all || low < 0 ? 0 : low;
    s->last = all || high > a->keys ? a->keys : high;
    if (s->last < s->first) s->last = s->first;
}

/* Query `token` of those at hand, of head h, is one row more. */
INLINE void add_row(const struct sp_attention_args *a, struct rows *s, long item, long token, long h)
{
    const long query = a->token0 + token - item * a->queries;
    s->q[s->n] = a->q + (token * a->heads + h) * DIM_K;
    s->o[s->n] = a->o + (token * a->heads + h) * DIM_V;
    s->mask[s->n] = a->mask;
    if (a->mask)
        s->mask[s->n] += item % a->mask_items * a->mask_item + h * a->mask_head + query * a->mask_query;
    s->place[s->n++] = query + a->keys - a->queries;
}

KERNEL void sp_kernel_attention_rows(const void *args)
{
    const struct sp_attention_args *a = (const struct sp_attention_args *)args;
    const long count = a->tokens - a->token0 < SP_PANEL ? a->tokens - a->token0 : SP_PANEL;
    struct rows s = {.turned = a->work, .scores = a->work + DIM_K * LANES};
    s.room = (a->keys + 2 * LANES - 1) / LANES * LANES;
    for (long token = 0, end; token < count; token = end) {
        const long item = (a->token0 + token) / a->queries;
        end = (item + 1) * a->queries - a->token0 < count ? (item + 1) * a->queries - a->token0 : count;
        const long place = a->token0 - item * a->queries + a->keys - a->queries; /* of token 0 */
        look(a, &s, place + token, place + end);
        for (long h = a->head0, next; h < a->head1; h = next) {
            const long group = h / a->share, heads = (group + 1) * a->share;
            next = heads < a->head1 ? heads : a->head1;
            s.k = a->k + item * a->k_item + group * a->k_group;
            s.v = a->v + item * a->v_item + group * a->v_group;
            const long rows = (end - token) * (next - h);
            for (long row = 0; row < rows;) {
                for (s.n = 0; s.n < ROWS && row < rows; row++)
                    add_row(a, &s, item, token + row / (next - h), h + row % (next - h));
                attend(a, &s);
            }
        }
    }
}
