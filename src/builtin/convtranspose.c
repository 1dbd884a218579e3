/* ConvTranspose: every element of x adds a multiple of its kernel to y, which starts as the bias:
 * y[n, m, i*stride - before + k*dilation] += w[c, m', k] x[n, c, i], what falls outside of y being lost. x (N, C, in...),
 * w (C, M/group, kernel...), bias (M), y (N, M, out...); the channels of a group write the m of that group. */
#include "builtin/window.h"

typedef struct transposed {
    sp_window w;
    int64_t in[SP_WINDOW_DIMS], out[SP_WINDOW_DIMS];
    int64_t channels, filters; /* of one group */
    double *x;                 /* (channels, in) of one group of one image */
    double *k;                 /* (channels, kernel) of one filter */
    double *plane;             /* (out) */
} transposed;

/* The padding follows from the size of the result where that was given: attribute output_shape, or SAME. */
static void place(transposed *t, bool given)
{
    for (int i = SP_WINDOW_DIMS - t->w.n; i < SP_WINDOW_DIMS; i++) {
        sp_window *w = &t->w;
        if (!given && w->padding != SP_PAD_UPPER && w->padding != SP_PAD_LOWER) continue;
        int64_t whole = (t->in[i] - 1) * w->stride[i] + w->extra[i] + sp_window_effective(w, i);
        int64_t total = SP_MAX(whole - t->out[i], 0);
        w->before[i] = w->padding == SP_PAD_UPPER ? total / 2 : total - total / 2;
    }
}

/* One tap of one channel: the plane gets weight * x, shifted by the tap. */
static void add_tap(const transposed *t, const double *x, double weight, const int64_t tap[3])
{
    int64_t first[3], from[3], to[3];
    const int64_t *stride = t->w.stride;
    for (int i = 0; i < 3; i++) {
        first[i] = tap[i] * t->w.dilation[i] - t->w.before[i];
        sp_window_range(first[i], stride[i], t->out[i], t->in[i], &from[i], &to[i]);
    }
    for (int64_t z = from[0]; z < to[0]; z++)
        for (int64_t y = from[1]; y < to[1]; y++) {
            const double *row = x + (z * t->in[1] + y) * t->in[2];
            int64_t oz = first[0] + z * stride[0], oy = first[1] + y * stride[1];
            double *result = t->plane + (oz * t->out[1] + oy) * t->out[2];
            for (int64_t i = from[2]; i < to[2]; i++) result[first[2] + i * stride[2]] += weight * row[i];
        }
}

static sparta_status add_channels(sparta_ctx *cx, const transposed *t)
{
    const int64_t *kernel = t->w.kernel;
    const double *k = t->k;
    for (int64_t c = 0; c < t->channels; c++) {
        SP_TRY(sp_check_cancel(cx));
        for (int64_t z = 0; z < kernel[0]; z++)
            for (int64_t y = 0; y < kernel[1]; y++)
                for (int64_t x = 0; x < kernel[2]; x++)
                    add_tap(t, t->x + c * sp_window_volume(t->in), *k++, (int64_t[]){z, y, x});
    }
    return SPARTA_OK;
}

/* One plane of the result: filter m of one image, whose group is in t->x. */
static sparta_status filter(sparta_ctx *cx, const transposed *t, const sp_op_args *args, int64_t m,
                            const sparta_tensor *plane)
{
    const int64_t size = sp_window_volume(t->out), group = m / t->filters;
    sparta_tensor part = sp_view_part(&args->in[1], 0, group * t->channels, t->channels);
    part = sp_view_drop(&part, 1, m % t->filters);
    sp_window_load(&part, t->k);
    const sparta_tensor *b = &args->in[2];
    double bias = sp_op_has(args, 2) ? sp_element_get(b->dtype, b->data, m * b->stride[0]) : 0;
    for (int64_t i = 0; i < size; i++) t->plane[i] = bias;
    SP_TRY(add_channels(cx, t));
    const double *from = t->plane;
    for (sp_walk w = sp_walk_begin(plane->rank, plane->dim, 1, &plane); w.more; sp_walk_next(&w))
        sp_element_set(plane->dtype, plane->data, w.at[0], *from++);
    return SPARTA_OK;
}

static sparta_status transpose(sparta_ctx *cx, const transposed *t, const sp_op_args *args)
{
    const sparta_tensor *y = &args->out[0];
    for (int64_t n = 0; n < y->dim[0]; n++) {
        sparta_tensor image = sp_view_drop(&args->in[0], 0, n), result = sp_view_drop(y, 0, n);
        for (int64_t m = 0; m < y->dim[1]; m++) {
            sparta_tensor plane = sp_view_drop(&result, 0, m);
            if (m % t->filters == 0) {
                sparta_tensor group = sp_view_part(&image, 0, m / t->filters * t->channels, t->channels);
                sp_window_load(&group, t->x);
            }
            SP_TRY(filter(cx, t, args, m, &plane));
        }
    }
    return SPARTA_OK;
}

sparta_status sp_builtin_ConvTranspose(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *w = &args->in[1], *y = &args->out[0];
    const sp_attr *shape = sp_attr_find(args->attrs, "output_shape");
    transposed t = {.filters = w->dim[1]};
    SP_TRY(sp_window_read(cx, args->attrs, x->rank - 2, w->dim + 2, &t.w));
    t.channels = w->dim[0] / t.w.group;
    sp_window_sizes(&t.w, x, t.in);
    sp_window_sizes(&t.w, y, t.out);
    if (sparta_tensor_elements(y) == 0) return SPARTA_OK;
    place(&t, shape && shape->n > 0);
    t.x = sp_alloc_array(cx, (size_t)(t.channels * sp_window_volume(t.in)), sizeof *t.x);
    t.k = sp_alloc_array(cx, (size_t)(t.channels * sp_window_volume(t.w.kernel)), sizeof *t.k);
    t.plane = sp_alloc_array(cx, (size_t)sp_window_volume(t.out), sizeof *t.plane);
    sparta_status status = t.x && t.k && t.plane ? transpose(cx, &t, args) : sp_ctx_status(cx);
    sp_free(cx, t.x);
    sp_free(cx, t.k);
    sp_free(cx, t.plane);
    return status;
}
