/* The folds and loops of pool.h. */
#include "builtin/pool.h"
#include <math.h>

/* ------------------------------------------------------------------ folds */
static void take_max(sparta_pooled *a, double x, int64_t at)
{
    if (a->at >= 0 && !(x > a->value) && !(isnan(x) && !isnan(a->value)))
        return; /* the first of equals; NaN wins */
    a->value = x;
    a->at = at;
}

static double end_max(const sparta_pooled *a, int64_t count)
{
    (void)count;
    return a->value;
}

static void take_sum(sparta_pooled *a, double x, int64_t at)
{
    (void)at;
    a->value += x;
}

static double end_average(const sparta_pooled *a, int64_t count)
{
    return a->value / (double)count;
}

static void take_power(sparta_pooled *a, double x, int64_t at)
{
    (void)at;
    a->value += pow(fabs(x), a->p);
}

static double end_root(const sparta_pooled *a, int64_t count)
{
    (void)count;
    return pow(a->value, 1 / a->p);
}

const sparta_pool_fold sparta_pool_max = {-INFINITY, take_max, end_max};
const sparta_pool_fold sparta_pool_average = {0, take_sum, end_average};
const sparta_pool_fold sparta_pool_lp = {0, take_power, end_root};

static sparta_pooled begin(const sparta_pool_fold *fold, const sparta_op_args *args)
{
    return (sparta_pooled){fold->first, -1, (double)sparta_attr_int(args->attrs, "p", 2)};
}

/* ------------------------------------------------------------------ windows */
typedef struct pool {
    sparta_window w;
    int64_t in[3], out[3];
    const sparta_pool_fold *fold;
    const double *plane; /* (in) */
    sparta_pooled none;
    bool count_padding;
} pool;

/* Taps of the window at output o of dim i: those inside of the plane, and how many count. */
static int64_t taps(const pool *p, int i, int64_t o, int64_t *first, int64_t *from, int64_t *to)
{
    const sparta_window *w = &p->w;
    *first = o * w->stride[i] - w->before[i];
    sparta_window_range(*first, w->dilation[i], p->in[i], w->kernel[i], from, to);
    if (!p->count_padding) return *to - *from;
    int64_t low, end; /* places in front of the padding there are none; beyond it ceil_mode may go */
    sparta_window_range(*first, w->dilation[i], p->in[i] + w->after[i], w->kernel[i], &low, &end);
    return end;
}

static double fold_window(const pool *p, const int64_t o[3], sparta_pooled *a)
{
    int64_t first[3], from[3], to[3], count = 1;
    const int64_t *step = p->w.dilation;
    for (int i = 0; i < 3; i++) count *= taps(p, i, o[i], &first[i], &from[i], &to[i]);
    *a = p->none;
    for (int64_t z = from[0]; z < to[0]; z++)
        for (int64_t y = from[1]; y < to[1]; y++) {
            int64_t row =
                ((first[0] + z * step[0]) * p->in[1] + first[1] + y * step[1]) * p->in[2] + first[2];
            for (int64_t x = from[2]; x < to[2]; x++)
                p->fold->take(a, p->plane[row + x * step[2]], row + x * step[2]);
        }
    return p->fold->end(a, count);
}

/* Where in the whole input MaxPool's element stood: rows first, or columns first when attribute storage_order=1. */
static int64_t index_of(const pool *p, const sparta_op_args *args, int64_t plane, int64_t at)
{
    int64_t z = at / (p->in[1] * p->in[2]), y = at / p->in[2] % p->in[1], x = at % p->in[2];
    if (sparta_attr_int(args->attrs, "storage_order", 0)) at = (x * p->in[1] + y) * p->in[0] + z;
    return plane * sparta_window_volume(p->in) + at;
}

/* All windows of one plane; y and indices are (out...). */
static sparta_status fold_plane(sparta_ctx *cx, const pool *p, const sparta_op_args *args, int64_t plane,
                                const sparta_tensor *y, const sparta_tensor *indices)
{
    int64_t o[3];
    const sparta_tensor *all[] = {y, indices ? indices : y};
    sparta_walk w = sparta_walk_begin(y->rank, y->dim, 2, all);
    for (o[0] = 0; o[0] < p->out[0]; o[0]++)
        for (o[1] = 0; o[1] < p->out[1]; o[1]++) {
            SPARTA_TRY(sparta_check_cancel(cx));
            for (o[2] = 0; o[2] < p->out[2]; o[2]++, sparta_walk_next(&w)) {
                sparta_pooled a;
                sparta_element_set(y->dtype, y->data, w.at[0], fold_window(p, o, &a));
                if (indices)
                    sparta_element_set_int(indices->dtype, indices->data, w.at[1],
                                           index_of(p, args, plane, a.at));
            }
        }
    return SPARTA_OK;
}

static sparta_status fold_planes(sparta_ctx *cx, const pool *p, const sparta_op_args *args, double *plane)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    const sparta_tensor *indices = args->n_out > 1 && args->out[1].rank >= 0 ? &args->out[1] : NULL;
    for (int64_t i = 0; i < x->dim[0] * x->dim[1]; i++) {
        int64_t n = i / x->dim[1], c = i % x->dim[1];
        sparta_tensor from = sparta_view_drop(x, 0, n), to = sparta_view_drop(y, 0, n), places;
        from = sparta_view_drop(&from, 0, c);
        to = sparta_view_drop(&to, 0, c);
        if (indices) {
            places = sparta_view_drop(indices, 0, n);
            places = sparta_view_drop(&places, 0, c);
        }
        sparta_window_load(&from, plane);
        SPARTA_TRY(fold_plane(cx, p, args, i, &to, indices ? &places : NULL));
    }
    return SPARTA_OK;
}

sparta_status sparta_builtin_windows(sparta_ctx *cx, const sparta_op_args *args, const sparta_pool_fold *fold)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    pool p = {.fold = fold,
              .none = begin(fold, args),
              .count_padding = sparta_attr_int(args->attrs, "count_include_pad", 0)};
    SPARTA_TRY(sparta_window_read(cx, args->attrs, x->rank - 2, NULL, &p.w));
    sparta_window_sizes(&p.w, x, p.in);
    sparta_window_sizes(&p.w, y, p.out);
    SPARTA_TRY(sparta_window_place(cx, &p.w, p.in, p.out));
    if (sparta_tensor_elements(y) == 0) return SPARTA_OK;
    double *plane = sparta_alloc_array(cx, (size_t)sparta_window_volume(p.in), sizeof *plane);
    SPARTA_NEED(cx, plane);
    p.plane = plane;
    sparta_status status = fold_planes(cx, &p, args, plane);
    sparta_free(cx, plane);
    return status;
}

/* ------------------------------------------------------------------ planes */
sparta_status sparta_builtin_planes(sparta_ctx *cx, const sparta_op_args *args, const sparta_pool_fold *fold)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0], *both[] = {x, y};
    for (sparta_walk w = sparta_walk_begin(2, x->dim, 2, both); w.more; sparta_walk_next(&w)) {
        SPARTA_TRY(sparta_check_cancel(cx));
        sparta_tensor plane = sparta_view_at(x, w.at[0]);
        plane = sparta_view_tail(&plane, 2);
        const sparta_tensor *p = &plane;
        sparta_pooled a = begin(fold, args);
        int64_t at = 0;
        for (sparta_walk v = sparta_walk_begin(p->rank, p->dim, 1, &p); v.more; sparta_walk_next(&v))
            fold->take(&a, sparta_element_get(p->dtype, p->data, v.at[0]), at++);
        sparta_element_set(y->dtype, y->data, w.at[1], fold->end(&a, at));
    }
    return SPARTA_OK;
}
