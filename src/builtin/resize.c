/* Resize: y is x sampled along each axis at other distances. Inputs: x, region of interest (for tf_crop_and_resize), scales,
 * sizes; one of the last two. Axes are independent: nearest picks one element, linear and cubic are applied to one axis
 * after the other, in double. */
#include "builtin/resize.h"
#include <math.h>

/* ------------------------------------------------------------------ axes */
static double element(const sp_op_args *args, int input, int64_t i)
{
    const sparta_tensor *t = &args->in[input];
    return sp_element_get(t->dtype, t->data, t->rank ? i * t->stride[0] : 0);
}

static bool given(const sp_op_args *args, int input)
{
    return sp_op_has(args, input) && sparta_tensor_elements(&args->in[input]) > 0;
}

/* The scale that keeps the aspect: the smallest or the largest that the sizes ask for. */
static double common_scale(const sp_resize *r, const sp_op_args *args)
{
    double scale = 0;
    for (int i = 0; i < r->n_axes; i++) {
        double s = element(args, 3, i) / (double)args->in[0].dim[r->axis[i]];
        if (i == 0 || (r->aspect == SP_NOT_LARGER ? s < scale : s > scale)) scale = s;
    }
    return scale;
}

sparta_status sp_resize_axes(sparta_ctx *cx, const sp_op_args *args, const sp_resize *r, sp_resize_axis *axis)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    const bool region = r->coordinates == SP_CROP_AND_RESIZE && given(args, 1);
    for (int i = 0; i < x->rank; i++) {
        double scale = x->dim[i] ? (double)y->dim[i] / (double)x->dim[i] : 1;
        axis[i] = (sp_resize_axis){x->dim[i], y->dim[i], scale, 0, 1};
    }
    for (int i = 0; i < r->n_axes; i++) {
        sp_resize_axis *a = &axis[r->axis[i]];
        if (given(args, 2))
            a->scale = element(args, 2, i);
        else if (r->aspect != SP_STRETCH)
            a->scale = common_scale(r, args);
        if (region) a->start = element(args, 1, i);
        if (region) a->end = element(args, 1, r->n_axes + i);
        if (a->out > 0 && (!(a->scale > 0) || a->in == 0))
            return sp_fail(cx, SPARTA_E_SHAPE, "Resize: axis %d of %lld elements cannot be scaled by %g",
                           r->axis[i], (long long)a->in, a->scale);
    }
    return SPARTA_OK;
}

static int64_t clamp(int64_t i, int64_t n)
{
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

bool sp_resize_stays(const sp_resize_axis *a)
{
    return a->in == a->out && a->scale == 1 && a->start == 0 && a->end == 1;
}

/* ------------------------------------------------------------------ nearest */
int64_t sp_resize_nearest(const sp_resize *r, const sp_resize_axis *a, int64_t o)
{
    bool outside;
    double x = sp_resize_at(r, a, o, &outside);
    if (outside) return -1;
    switch (r->nearest) {
    case SP_PREFER_FLOOR: x = ceil(x - 0.5); break;
    case SP_PREFER_CEIL: x = floor(x + 0.5); break;
    case SP_FLOOR: x = floor(x); break;
    case SP_CEIL: x = ceil(x); break;
    }
    return x <= 0 ? 0 : x >= (double)(a->in - 1) ? a->in - 1 : (int64_t)x;
}

/* from[axis][o]: the index in x; -1 is outside. */
static void pick(const sp_op_args *args, const sp_resize *r, int64_t *const from[SPARTA_RANK])
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    for (sp_cursor w = sp_cursor_begin(y->rank, y->dim, 1, &y); w.more; sp_cursor_next(&w)) {
        int64_t at = 0;
        bool inside = true;
        for (int i = 0; i < y->rank; i++) {
            int64_t k = from[i][w.index[i]];
            inside &= k >= 0;
            at += k * x->stride[i];
        }
        if (inside)
            sp_builtin_move(y->data, w.at[0], x->data, at, sparta_dtype_size(x->dtype));
        else
            sp_element_set(y->dtype, y->data, w.at[0], r->outside);
    }
}

static sparta_status resize_nearest(sparta_ctx *cx, const sp_op_args *args, const sp_resize *r,
                                    const sp_resize_axis *axis)
{
    int64_t *from[SPARTA_RANK] = {0};
    const int rank = args->out[0].rank;
    sparta_status status = SPARTA_OK;
    for (int i = 0; i < rank && status == SPARTA_OK; i++) {
        from[i] = sp_alloc_array(cx, (size_t)axis[i].out, sizeof *from[i]);
        if (!from[i]) status = sp_ctx_status(cx);
        for (int64_t o = 0; from[i] && o < axis[i].out; o++)
            from[i][o] = sp_resize_stays(&axis[i]) ? o : sp_resize_nearest(r, &axis[i], o);
    }
    if (status == SPARTA_OK) pick(args, r, from);
    for (int i = 0; i < rank; i++) sp_free(cx, from[i]);
    return status;
}

/* ------------------------------------------------------------------ linear and cubic */
/* The weight of a neighbour at distance d. */
static double weight_at(const sp_resize *r, double d)
{
    const double a = r->cubic;
    d = fabs(d);
    if (r->mode == SP_LINEAR) return d < 1 ? 1 - d : 0;
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

int64_t sp_resize_neighbours(const sp_resize *r, const sp_resize_axis *a, double x, int64_t *first,
                             double *weight)
{
    const double narrow = r->antialias && a->scale < 1 ? a->scale : 1;
    const double reach = (r->mode == SP_LINEAR ? 1 : 2) / narrow;
    double sum = 0;
    *first = (int64_t)floor(x - reach) + 1;
    int64_t n = (int64_t)ceil(x + reach) - *first;
    for (int64_t i = 0; i < n; i++) {
        bool outside = *first + i < 0 || *first + i >= a->in;
        weight[i] = outside && r->exclude_outside ? 0 : weight_at(r, ((double)(*first + i) - x) * narrow);
        sum += weight[i];
    }
    for (int64_t i = 0; i < n && sum != 0; i++) weight[i] /= sum;
    return n;
}

/* to (outer, out, inner) from (outer, in, inner) */
static void resize_axis(const sp_resize *r, const sp_resize_axis *a, int64_t outer, int64_t inner,
                        const double *from, double *to, double *weight)
{
    for (int64_t o = 0; o < a->out; o++) {
        bool outside;
        int64_t first = 0;
        double x = sp_resize_at(r, a, o, &outside);
        int64_t n = outside ? 0 : sp_resize_neighbours(r, a, x, &first, weight);
        for (int64_t u = 0; u < outer; u++)
            for (int64_t v = 0; v < inner; v++) {
                double sum = outside ? r->outside : 0;
                for (int64_t i = 0; i < n; i++)
                    sum += weight[i] * from[(u * a->in + clamp(first + i, a->in)) * inner + v];
                to[(u * a->out + o) * inner + v] = sum;
            }
    }
}

size_t sp_resize_most(const sp_resize *r, const sp_resize_axis *a)
{
    double n = r->antialias && a->scale < 1 ? 4 / a->scale + 2 : 6;
    return n < 1e9 ? (size_t)n : 0;
}

/* One axis of *data, whose sizes are `dim`: the result takes its place. */
static sparta_status replace_axis(sparta_ctx *cx, const sp_resize *r, const sp_resize_axis *a, int rank,
                                  int64_t *dim, int axis, double **data)
{
    int64_t outer = 1, inner = 1;
    size_t size;
    for (int i = 0; i < axis; i++) outer *= dim[i];
    for (int i = axis + 1; i < rank; i++) inner *= dim[i];
    dim[axis] = a->out;
    SP_TRY(sp_tensor_bytes(cx, SPARTA_F64, rank, dim, &size));
    size_t n = sp_resize_most(r, a);
    if (!n) return sp_fail(cx, SPARTA_E_LIMIT, "Resize: axis %d is scaled by %g", axis, a->scale);
    double *to = sp_alloc(cx, size), *weight = sp_alloc_array(cx, n, sizeof *weight);
    sparta_status status = to && weight ? sp_check_cancel(cx) : sp_ctx_status(cx);
    if (status == SPARTA_OK) {
        resize_axis(r, a, outer, inner, *data, to, weight);
        sp_free(cx, *data);
        *data = to;
        to = NULL;
    }
    sp_free(cx, to);
    sp_free(cx, weight);
    return status;
}

static sparta_status resize_smooth(sparta_ctx *cx, const sp_op_args *args, const sp_resize *r,
                                   const sp_resize_axis *axis)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    int64_t dim[SPARTA_RANK], at = 0;
    double *data = sp_alloc_array(cx, (size_t)sparta_tensor_elements(x), sizeof *data);
    SP_NEED(cx, data);
    for (int i = 0; i < x->rank; i++) dim[i] = x->dim[i];
    for (sp_cursor w = sp_cursor_begin(x->rank, x->dim, 1, &x); w.more; sp_cursor_next(&w))
        data[at++] = sp_element_get(x->dtype, x->data, w.at[0]);
    sparta_status status = SPARTA_OK;
    for (int i = x->rank - 1; i >= 0 && status == SPARTA_OK; i--)
        if (!sp_resize_stays(&axis[i])) status = replace_axis(cx, r, &axis[i], x->rank, dim, i, &data);
    at = 0;
    for (sp_cursor w = sp_cursor_begin(y->rank, y->dim, 1, &y); status == SPARTA_OK && w.more;
         sp_cursor_next(&w))
        sp_element_set(y->dtype, y->data, w.at[0], data[at++]);
    sp_free(cx, data);
    return status;
}

sparta_status sp_builtin_Resize(sparta_ctx *cx, const sp_op_args *args)
{
    sp_resize r;
    sp_resize_axis axis[SPARTA_RANK];
    SP_TRY(sp_resize_read(cx, args->attrs, args->in[0].rank, &r));
    SP_TRY(sp_resize_axes(cx, args, &r, axis));
    if (sparta_tensor_elements(&args->out[0]) == 0) return SPARTA_OK;
    return r.mode == SP_NEAREST ? resize_nearest(cx, args, &r, axis) : resize_smooth(cx, args, &r, axis);
}
