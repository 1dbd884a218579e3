/* Route: a list of blocks of keys for each block of queries (route.h). */
#include "builtin/heads.h"
#include "builtin/quick.h"
#include "builtin/route.h"
#include <math.h>
#include <stdlib.h>

/* ------------------------------------------------------------------ means */

/* One row of x, added to sum. */
static void add_row(const sparta_tensor *x, int64_t row, double *restrict sum)
{
    const int64_t n = x->dim[1], at = row * x->stride[0];
    if (x->dtype == SPARTA_F32 && x->stride[1] == 1) {
        const float *from = (const float *)x->data + at;
        for (int64_t e = 0; e < n; e++) sum[e] += (double)from[e];
    } else
        for (int64_t e = 0; e < n; e++) sum[e] += sp_element_get(x->dtype, x->data, at + e * x->stride[1]);
}

/* The mean of block i. */
static void mean(const sparta_tensor *x, int64_t block, int64_t i, double *sum)
{
    const int64_t from = i * block, to = SP_MIN(block, x->dim[0] - from) + from;
    for (int64_t e = 0; e < x->dim[1]; e++) sum[e] = 0;
    for (int64_t row = from; row < to; row++) add_row(x, row, sum);
    for (int64_t e = 0; e < x->dim[1]; e++) sum[e] /= (double)(to - from);
}

/* ------------------------------------------------------------------ what is seen */

static bool in_window(const sp_route *r, int64_t s, int64_t t)
{
    const int64_t after = t - s - (r->k.dim[0] - r->q.dim[0]);
    return (r->right < 0 || after <= r->right) && (r->left < 0 || after >= -r->left);
}

/* Does some query of [s0, s1) see some key of [t0, t1) in its window? They are neighbours, and so are the keys that they see. */
static bool in_windows(const sp_route *r, int64_t s0, int64_t s1, int64_t t0, int64_t t1)
{
    const int64_t place = r->k.dim[0] - r->q.dim[0];
    return (r->right < 0 || t0 - (s1 - 1 + place) <= r->right) &&
           (r->left < 0 || t1 - 1 - (s0 + place) >= -r->left);
}

static bool sees(const sp_route *r, int64_t i, int64_t j)
{
    const int64_t s0 = i * r->block, s1 = SP_MIN(r->block, r->q.dim[0] - s0) + s0, t0 = j * r->block,
                  t1 = SP_MIN(r->block, r->k.dim[0] - t0) + t0;
    if (!in_windows(r, s0, s1, t0, t1)) return false;
    if (r->seen.rank < 0) return true;
    for (int64_t s = s0; s < s1; s++)
        for (int64_t t = t0; t < t1; t++)
            if (in_window(r, s, t) &&
                !(sp_element_get(r->seen.dtype, r->seen.data,
                                 s * r->seen.stride[0] + t * r->seen.stride[1]) <= SP_ROUTE_HIDDEN))
                return true;
    return false;
}

/* ------------------------------------------------------------------ the most alike */

typedef struct near {
    double alike;
    int32_t block;
    bool seen;
} near;

static bool nearer(const near *a, const near *b)
{
    const bool an = isnan(a->alike), bn = isnan(b->alike);
    if (a->seen != b->seen) return a->seen;
    if (an != bn) return an;
    if (!an && a->alike != b->alike) return a->alike > b->alike;
    return a->block < b->block;
}

/* heap[0] is the least near of n; put x in its place. */
static void sink(near *heap, int64_t n, near x)
{
    int64_t at = 0, down;
    for (; (down = 2 * at + 1) < n; at = down) {
        if (down + 1 < n && nearer(&heap[down], &heap[down + 1])) down++;
        if (!nearer(&x, &heap[down])) break;
        heap[at] = heap[down];
    }
    heap[at] = x;
}

/* x beside the n that are there. */
static void rise(near *heap, int64_t n, near x)
{
    int64_t at = n;
    for (; at > 0 && nearer(&heap[(at - 1) / 2], &x); at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = x;
}

static int ascending(const void *a, const void *b)
{
    return (*(const int32_t *)a > *(const int32_t *)b) - (*(const int32_t *)a < *(const int32_t *)b);
}

/* The list of block i of queries, of how alike `blocks` of keys are. */
static void choose(const sp_route *r, int64_t i, const double *alike, int64_t blocks, near *heap)
{
    int32_t *list = r->list + i * r->room;
    int64_t n = 0, kept = 0;
    bool own = r->own && i < blocks;
    for (int64_t j = 0; j < blocks; j++) {
        const near x = {alike[j], (int32_t)j, sees(r, i, j)};
        if (n < r->keep)
            rise(heap, n++, x);
        else if (nearer(&x, &heap[0]))
            sink(heap, n, x);
    }
    bool any = false;
    for (int64_t j = 0; j < n; j++) any |= heap[j].seen;
    for (int64_t j = 0; j < n && kept < r->room; j++) {
        if (any && !heap[j].seen) continue;
        own = own && heap[j].block != i;
        list[kept++] = heap[j].block;
    }
    if (own && kept < r->room) list[kept++] = (int32_t)i;
    qsort(list, (size_t)kept, sizeof *list, ascending);
    while (kept < r->room) list[kept++] = -1;
}

/* ------------------------------------------------------------------ one head */

/* Means of keys, turned, the mean of a block of queries and how alike it is to each, and the nearest. */
sparta_status sp_route_scratch(sparta_ctx *cx, const sp_route *r, size_t *out)
{
    const int64_t keys = sp_route_blocks(r->k.dim[0], r->block), n = SP_MIN(r->keep, keys);
    int64_t all, more;
    if (!sp_int_mul(keys + 2, r->q.dim[1] + 1, &all) ||
        !sp_int_mul(n + 1, (int64_t)(sizeof(near) / sizeof(double)) + 1, &more) ||
        !sp_int_add(all, more, &all) || all > (int64_t)(SIZE_MAX / sizeof(double) / 2))
        return sp_fail(cx, SPARTA_E_MEMORY, "Route: means of %lld blocks of keys have no room",
                       (long long)keys);
    *out = (size_t)all * sizeof(double);
    return SPARTA_OK;
}

void sp_route_head(const sp_route *r, void *scratch)
{
    const int64_t queries = sp_route_blocks(r->q.dim[0], r->block),
                  keys = sp_route_blocks(r->k.dim[0], r->block), n = r->q.dim[1];
    double *one = scratch, *alike = one + n, *turned = alike + keys;
    near *heap = (near *)(void *)(turned + keys * n);
    for (int64_t j = 0; j < keys; j++) {
        mean(&r->k, r->block, j, one);
        for (int64_t e = 0; e < n; e++) turned[e * keys + j] = one[e];
    }
    for (int64_t i = 0; i < queries; i++) {
        mean(&r->q, r->block, i, one);
        for (int64_t j = 0; j < keys; j++) alike[j] = 0;
        for (int64_t e = 0; e < n; e++)
            for (int64_t j = 0; j < keys; j++) alike[j] += one[e] * turned[e * keys + j];
        choose(r, i, alike, keys, heap);
    }
}

sparta_status sp_route_check(sparta_ctx *cx, const char *op, const sp_attrs *attrs)
{
    const int64_t block = sp_attr_int(attrs, "block", 1), keep = sp_attr_int(attrs, "keep", 0);
    if (block >= 1 && keep >= 1) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_SHAPE, "%s: block is %lld and keep %lld; both must be at least 1", op,
                   (long long)block, (long long)keep);
}

/* ------------------------------------------------------------------ all of them */

typedef struct routes {
    sparta_tensor q, k, seen; /* (B, heads, S, E), (B, groups, T, E), (B, heads, S, T) */
    sp_route one;
    int64_t heads, share;
    size_t bytes; /* of scratch */
    char *scratch;
    int32_t *list;
} routes;

static sparta_tensor matrix_at(const sparta_tensor *t, int64_t b, int64_t h)
{
    if (t->rank < 0) return *t;
    const sparta_tensor item = sp_view_drop(t, 0, t->dim[0] > 0 ? b % t->dim[0] : 0);
    return sp_view_drop(&item, 0, h);
}

static void route(void *arg, int64_t from, int64_t to)
{
    const routes *all = arg;
    for (int64_t i = from; i < to; i++) {
        sp_route one = all->one;
        const int64_t b = i / all->heads, h = i % all->heads;
        one.q = matrix_at(&all->q, b, h);
        one.k = matrix_at(&all->k, b, h / all->share);
        one.seen = matrix_at(&all->seen, b, h);
        one.list = all->list + i * sp_route_blocks(one.q.dim[0], one.block) * one.room;
        sp_route_head(&one, all->scratch + (size_t)i * all->bytes);
    }
}

/* A mask may be that of several items, which it then repeats for, as Attention's. */
static sparta_status view_seen(sparta_ctx *cx, const sp_op_args *args, routes *r)
{
    r->seen = (sparta_tensor){.rank = -1};
    if (!sp_op_has(args, 2)) return SPARTA_OK;
    const sparta_tensor *m = &args->in[2];
    const int64_t batch = r->q.dim[0];
    const bool some = m->rank == 4 && m->dim[0] > 0 && batch % m->dim[0] == 0;
    const int64_t full[4] = {some ? m->dim[0] : batch, r->heads, r->q.dim[2], r->k.dim[2]};
    return sp_tensor_broadcast(cx, m, 4, full, &r->seen);
}

static sparta_status view_all(sparta_ctx *cx, const sp_op_args *args, routes *r)
{
    const int64_t heads = sp_attr_int(args->attrs, "heads", 1),
                  groups = sp_attr_int(args->attrs, "kv_heads", heads);
    const sparta_tensor *list = &args->out[0];
    SP_TRY(sp_route_check(cx, "Route", args->attrs));
    SP_TRY(sp_view_heads(cx, "Route", &args->in[0], heads, &r->q));
    SP_TRY(sp_view_heads(cx, "Route", &args->in[1], groups, &r->k));
    r->heads = r->q.dim[1];
    r->one = (sp_route){.left = sp_attr_int(args->attrs, "left", -1),
                        .right = sp_attr_int(args->attrs, "right", -1),
                        .block = sp_attr_int(args->attrs, "block", 1),
                        .keep = sp_attr_int(args->attrs, "keep", 0),
                        .own = sp_attr_int(args->attrs, "own", 0) != 0,
                        .room = list->rank == 4 ? list->dim[3] : 0};
    if (r->k.dim[0] != r->q.dim[0] || r->k.dim[3] != r->q.dim[3] || r->k.dim[1] < 1 ||
        r->heads % r->k.dim[1] || list->rank != 4 || list->dtype != SPARTA_I32 ||
        !sp_tensor_contiguous(list) || list->dim[2] != sp_route_blocks(r->q.dim[2], r->one.block))
        return sp_fail(cx, SPARTA_E_SHAPE,
                       "Route: batches, heads or columns of q, k and the list do not fit");
    r->share = r->heads / r->k.dim[1];
    r->list = list->data;
    r->one.q = matrix_at(&r->q, 0, 0), r->one.k = matrix_at(&r->k, 0, 0);
    return view_seen(cx, args, r);
}

static sparta_status run(sparta_ctx *cx, const sp_op_args *args, bool shared)
{
    routes r = {0};
    size_t all;
    SP_TRY(view_all(cx, args, &r));
    SP_TRY(sp_route_scratch(cx, &r.one, &r.bytes));
    const int64_t n = r.q.dim[0] * r.heads;
    if (!sp_size_mul(r.bytes, (size_t)n, &all))
        return sp_fail(cx, SPARTA_E_MEMORY, "Route: means of %lld heads have no room", (long long)n);
    r.scratch = sp_alloc_array(cx, all + 1, 1);
    SP_NEED(cx, r.scratch);
    sparta_status s = SPARTA_OK;
    if (shared)
        s = sp_ctx_share(cx, n, (r.q.dim[2] + r.k.dim[2]) * r.q.dim[3], route, &r);
    else
        for (int64_t i = 0; i < n && s == SPARTA_OK; i++) route(&r, i, i + 1), s = sp_check_cancel(cx);
    sp_free(cx, r.scratch);
    return s;
}

sparta_status sp_builtin_Route(sparta_ctx *cx, const sp_op_args *args)
{
    return run(cx, args, false);
}

/* The same, by the threads that are there. */
sparta_status sp_quick_Route(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    *done = true;
    return run(cx, args, true);
}
