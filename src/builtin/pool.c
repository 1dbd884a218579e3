/* Pools: what is made of the elements in each window (MaxPool, AveragePool, LpPool) or of each whole plane (Global...), which becomes a
 * plane of size 1. The operators differ in how they fold elements into one number:
 *
 *   max       the largest; padding is never one; MaxPool's second output says where in x it stood
 *   average   the mean over the elements in x, or over the padding too with attribute count_include_pad=1; places that ceil_mode adds
 *             beyond the padding never count
 *   lp        (sum of |x|^p) ^ (1/p) */
#include "builtin/window.h"
#include <math.h>

typedef struct pooled {
    double value;
    int64_t at; /* where in the plane MaxPool's element stood; -1: nowhere */
    double p;   /* attribute p of the Lp pools */
} pooled;

typedef struct fold_by {
    double first;
    void (*take)(pooled *a, double x, int64_t at);
    double (*end)(const pooled *a, int64_t count); /* count: elements, or places when padding counts */
} fold_by;

/* ------------------------------------------------------------------ folds */
static void take_max(pooled *a, double x, int64_t at)
{
    if (a->at >= 0 && !(x > a->value) && !(isnan(x) && !isnan(a->value)))
        return; /* the first of equals; NaN wins */
    a->value = x;
    a->at = at;
}

static double end_max(const pooled *a, int64_t count)
{
    (void)count;
    return a->value;
}

static void take_sum(pooled *a, double x, int64_t at)
{
    (void)at;
    a->value += x;
}

static double end_average(const pooled *a, int64_t count)
{
    return a->value / (double)count;
}

static void take_power(pooled *a, double x, int64_t at)
{
    (void)at;
    a->value += pow(fabs(x), a->p);
}

static double end_root(const pooled *a, int64_t count)
{
    (void)count;
    return pow(a->value, 1 / a->p);
}

static const fold_by max = {-INFINITY, take_max, end_max};
static const fold_by average = {0, take_sum, end_average};
static const fold_by lp = {0, take_power, end_root};

static pooled begin(const fold_by *fold, const sp_op_args *args)
{
    return (pooled){fold->first, -1, (double)sp_attr_int(args->attrs, "p", 2)};
}

/* ------------------------------------------------------------------ windows */
typedef struct pool {
    sp_window w;
    int64_t in[3], out[3];
    const fold_by *fold;
    const double *plane; /* (in) */
    pooled none;
    bool count_padding;
} pool;

static double fold_window(const pool *p, const int64_t o[3], pooled *a)
{
    int64_t first[3], from[3], to[3], count = 1;
    const int64_t *step = p->w.dilation;
    for (int i = 0; i < 3; i++)
        count *= sp_window_taps(&p->w, p->in, i, o[i], p->count_padding, &first[i], &from[i], &to[i]);
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
static int64_t index_of(const pool *p, const sp_op_args *args, int64_t plane, int64_t at)
{
    int64_t z = at / (p->in[1] * p->in[2]), y = at / p->in[2] % p->in[1], x = at % p->in[2];
    if (sp_attr_int(args->attrs, "storage_order", 0)) at = (x * p->in[1] + y) * p->in[0] + z;
    return plane * sp_window_volume(p->in) + at;
}

/* All windows of one plane; y and indices are (out...). */
static sparta_status fold_plane(sparta_ctx *cx, const pool *p, const sp_op_args *args, int64_t plane,
                                const sparta_tensor *y, const sparta_tensor *indices)
{
    int64_t o[3];
    const sparta_tensor *all[] = {y, indices ? indices : y};
    sp_cursor w = sp_cursor_begin(y->rank, y->dim, 2, all);
    for (o[0] = 0; o[0] < p->out[0]; o[0]++)
        for (o[1] = 0; o[1] < p->out[1]; o[1]++) {
            SP_TRY(sp_check_cancel(cx));
            for (o[2] = 0; o[2] < p->out[2]; o[2]++, sp_cursor_next(&w)) {
                pooled a;
                sp_element_set(y->dtype, y->data, w.at[0], fold_window(p, o, &a));
                if (indices)
                    sp_element_set_int(indices->dtype, indices->data, w.at[1],
                                       index_of(p, args, plane, a.at));
            }
        }
    return SPARTA_OK;
}

static sparta_status fold_planes(sparta_ctx *cx, const pool *p, const sp_op_args *args, double *plane)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    const sparta_tensor *indices = args->n_out > 1 && args->out[1].rank >= 0 ? &args->out[1] : NULL;
    for (int64_t i = 0; i < x->dim[0] * x->dim[1]; i++) {
        int64_t n = i / x->dim[1], c = i % x->dim[1];
        sparta_tensor from = sp_view_drop(x, 0, n), to = sp_view_drop(y, 0, n), places;
        from = sp_view_drop(&from, 0, c);
        to = sp_view_drop(&to, 0, c);
        if (indices) {
            places = sp_view_drop(indices, 0, n);
            places = sp_view_drop(&places, 0, c);
        }
        sp_window_load(&from, plane);
        SP_TRY(fold_plane(cx, p, args, i, &to, indices ? &places : NULL));
    }
    return SPARTA_OK;
}

static sparta_status windows(sparta_ctx *cx, const sp_op_args *args, const fold_by *fold)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    pool p = {.fold = fold,
              .none = begin(fold, args),
              .count_padding = sp_attr_int(args->attrs, "count_include_pad", 0)};
    SP_TRY(sp_window_read(cx, args->attrs, x->rank - 2, NULL, &p.w));
    sp_window_sizes(&p.w, x, p.in);
    sp_window_sizes(&p.w, y, p.out);
    SP_TRY(sp_window_place(cx, &p.w, p.in, p.out));
    if (sparta_tensor_elements(y) == 0) return SPARTA_OK;
    double *plane = sp_alloc_array(cx, (size_t)sp_window_volume(p.in), sizeof *plane);
    SP_NEED(cx, plane);
    p.plane = plane;
    sparta_status status = fold_planes(cx, &p, args, plane);
    sp_free(cx, plane);
    return status;
}

/* ------------------------------------------------------------------ planes */
static sparta_status planes(sparta_ctx *cx, const sp_op_args *args, const fold_by *fold)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0], *both[] = {x, y};
    for (sp_cursor w = sp_cursor_begin(2, x->dim, 2, both); w.more; sp_cursor_next(&w)) {
        SP_TRY(sp_check_cancel(cx));
        sparta_tensor plane = sp_view_at(x, w.at[0]);
        plane = sp_view_tail(&plane, 2);
        const sparta_tensor *p = &plane;
        pooled a = begin(fold, args);
        int64_t at = 0;
        for (sp_cursor v = sp_cursor_begin(p->rank, p->dim, 1, &p); v.more; sp_cursor_next(&v))
            fold->take(&a, sp_element_get(p->dtype, p->data, v.at[0]), at++);
        sp_element_set(y->dtype, y->data, w.at[1], fold->end(&a, at));
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the operators */
SP_REFERENCE(MaxPool, windows(cx, args, &max))
SP_REFERENCE(AveragePool, windows(cx, args, &average))
SP_REFERENCE(LpPool, windows(cx, args, &lp))
SP_REFERENCE(GlobalMaxPool, planes(cx, args, &max))
SP_REFERENCE(GlobalAveragePool, planes(cx, args, &average))
SP_REFERENCE(GlobalLpPool, planes(cx, args, &lp))
