/* Conv and ConvTranspose. x (N, C, in...), bias (M), y (N, M, out...); filter m of a group has to do with the channels of its group.
 *
 *     Conv            y[n, m, o] = bias[m] + sum over c, k of w[m, c, k] x[n, c, o*stride - before + k*dilation], positions outside of x
 *                     being 0; w is (M, C/group, kernel...)
 *     ConvTranspose   every element of x adds a multiple of its kernel to y, which starts as the bias:
 *                     y[n, m, i*stride - before + k*dilation] += w[c, m, k] x[n, c, i], what falls outside of y being lost;
 *                     w is (C, M/group, kernel...)
 */
#include "builtin/window.h"

typedef struct conv {
    const sp_op_args *args;
    bool transposed;
    sp_window w;
    int64_t in[SP_WINDOW_DIMS], out[SP_WINDOW_DIMS];
    int64_t channels, filters; /* of one group */
    double *x;                 /* (channels, in) of one group of one image */
    double *k;                 /* (channels, kernel) of one filter */
    double *sum;               /* of Conv (out[2]), a row of the result; of ConvTranspose (out) */
} conv;

/* ------------------------------------------------------------------ Conv */
/* One row of outputs is summed at a time: for each tap and each channel a multiple of a row of x is added, over the part where the tap
 * lies inside of x. */

/* row[o] += sum over all channels of their weight at one tap times x[at + o*stride]; k is the tap of channel 0, x its row.
 * Four channels at a time, so that the row is read and written a quarter as often. */
static void add_row(const conv *c, const double *k, const double *x, int64_t from, int64_t to, int64_t at)
{
    const int64_t stride = c->w.stride[2], taps = sp_window_volume(c->w.kernel),
                  plane = sp_window_volume(c->in);
    double *restrict row = c->sum;
    int64_t ch = 0;
    for (; ch + 4 <= c->channels; ch += 4, k += 4 * taps, x += 4 * plane) {
        const double *x1 = x + plane, *x2 = x1 + plane, *x3 = x2 + plane;
        const double k0 = k[0], k1 = k[taps], k2 = k[2 * taps], k3 = k[3 * taps];
        for (int64_t o = from; o < to; o++) {
            const int64_t i = at + o * stride;
            row[o] += k0 * x[i] + k1 * x1[i] + k2 * x2[i] + k3 * x3[i];
        }
    }
    for (; ch < c->channels; ch++, k += taps, x += plane)
        for (int64_t o = from; o < to; o++) row[o] += k[0] * x[at + o * stride];
}

/* One row of outputs at (z, y): every tap, over the part of the row where it lies inside of x. */
static void sum_row(const conv *c, int64_t z, int64_t y)
{
    const sp_window *w = &c->w;
    int64_t z0 = z * w->stride[0] - w->before[0], y0 = y * w->stride[1] - w->before[1], zf, zt, yf, yt;
    sp_window_range(z0, w->dilation[0], c->in[0], w->kernel[0], &zf, &zt);
    sp_window_range(y0, w->dilation[1], c->in[1], w->kernel[1], &yf, &yt);
    for (int64_t kz = zf; kz < zt; kz++)
        for (int64_t ky = yf; ky < yt; ky++)
            for (int64_t kx = 0; kx < w->kernel[2]; kx++) {
                int64_t iz = z0 + kz * w->dilation[0], iy = y0 + ky * w->dilation[1];
                int64_t at = kx * w->dilation[2] - w->before[2], from, to;
                sp_window_range(at, w->stride[2], c->in[2], c->out[2], &from, &to);
                add_row(c, c->k + (kz * w->kernel[1] + ky) * w->kernel[2] + kx,
                        c->x + (iz * c->in[1] + iy) * c->in[2], from, to, at);
            }
}

/* All outputs of one filter on one image; y is (out...) */
static sparta_status slide(sparta_ctx *cx, const conv *c, double bias, const sparta_tensor *y)
{
    const int last = y->rank - 1;
    for (int64_t oz = 0; oz < c->out[0]; oz++)
        for (int64_t oy = 0; oy < c->out[1]; oy++) {
            SP_TRY(sp_check_cancel(cx));
            for (int64_t o = 0; o < c->out[2]; o++) c->sum[o] = bias;
            sum_row(c, oz, oy);
            int64_t at =
                (last > 1 ? oz * y->stride[last - 2] : 0) + (last > 0 ? oy * y->stride[last - 1] : 0);
            for (int64_t o = 0; o < c->out[2]; o++)
                sp_element_set(y->dtype, y->data, at + o * y->stride[last], c->sum[o]);
        }
    return SPARTA_OK;
}

/* A kernel of 1 that visits every position once does not see the shape: one long row is faster than many short ones. */
static void join_rows(conv *c, sparta_tensor *y)
{
    for (int i = 0; i < SP_WINDOW_DIMS; i++)
        if (c->w.kernel[i] != 1 || c->w.stride[i] != 1 || c->w.before[i] || c->w.after[i]) return;
    if (!sp_tensor_contiguous(y)) return;
    int64_t size = sp_window_volume(c->in), dim[3] = {y->dim[0], y->dim[1], size};
    c->in[0] = c->in[1] = c->out[0] = c->out[1] = 1;
    c->in[2] = c->out[2] = size;
    *y = sparta_tensor_view(y->dtype, 3, dim, y->data);
}

/* ------------------------------------------------------------------ ConvTranspose */
/* The padding follows from the size of the result where that was given: attribute output_shape, or SAME. */
static void place(conv *t, bool given)
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
static void add_tap(const conv *t, const double *x, double weight, const int64_t tap[3])
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
            double *result = t->sum + (oz * t->out[1] + oy) * t->out[2];
            for (int64_t i = from[2]; i < to[2]; i++) result[first[2] + i * stride[2]] += weight * row[i];
        }
}

static sparta_status add_channels(sparta_ctx *cx, const conv *t)
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

/* All of one filter on one image. */
static sparta_status spread(sparta_ctx *cx, const conv *t, double bias, const sparta_tensor *y)
{
    const double *from = t->sum;
    for (int64_t i = 0; i < sp_window_volume(t->out); i++) t->sum[i] = bias;
    SP_TRY(add_channels(cx, t));
    for (sp_cursor w = sp_cursor_begin(y->rank, y->dim, 1, &y); w.more; sp_cursor_next(&w))
        sp_element_set(y->dtype, y->data, w.at[0], *from++);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ both */
/* One plane of the result. */
typedef sparta_status (*one_filter)(sparta_ctx *cx, const conv *c, double bias, const sparta_tensor *y);

static void load_kernel(const conv *c, int64_t m)
{
    const sparta_tensor *w = &c->args->in[1];
    sparta_tensor one;
    if (c->transposed) {
        one = sp_view_part(w, 0, m / c->filters * c->channels, c->channels);
        one = sp_view_drop(&one, 1, m % c->filters);
    } else {
        one = sp_view_drop(w, 0, m);
    }
    sp_window_load(&one, c->k);
}

static sparta_status each_filter(sparta_ctx *cx, const conv *c, const sparta_tensor *y, one_filter filter)
{
    const sparta_tensor *bias = sp_op_has(c->args, 2) ? &c->args->in[2] : NULL;
    for (int64_t n = 0; n < y->dim[0]; n++) {
        sparta_tensor image = sp_view_drop(&c->args->in[0], 0, n), result = sp_view_drop(y, 0, n);
        for (int64_t m = 0; m < y->dim[1]; m++) {
            if (m % c->filters == 0) {
                sparta_tensor group = sp_view_part(&image, 0, m / c->filters * c->channels, c->channels);
                sp_window_load(&group, c->x);
            }
            load_kernel(c, m);
            sparta_tensor plane = sp_view_drop(&result, 0, m);
            SP_TRY(filter(cx, c, bias ? sp_element_get(bias->dtype, bias->data, m * bias->stride[0]) : 0,
                          &plane));
        }
    }
    return SPARTA_OK;
}

/* `sums` is how many elements of y are summed at a time. */
static sparta_status convolve(sparta_ctx *cx, conv *c, const sparta_tensor *y, int64_t sums,
                              one_filter filter)
{
    c->x = sp_alloc_array(cx, (size_t)(c->channels * sp_window_volume(c->in)), sizeof *c->x);
    c->k = sp_alloc_array(cx, (size_t)(c->channels * sp_window_volume(c->w.kernel)), sizeof *c->k);
    c->sum = sp_alloc_array(cx, (size_t)sums, sizeof *c->sum);
    sparta_status status = c->x && c->k && c->sum ? each_filter(cx, c, y, filter) : sp_ctx_status(cx);
    sp_free(cx, c->x);
    sp_free(cx, c->k);
    sp_free(cx, c->sum);
    return status;
}

static sparta_status read(sparta_ctx *cx, const sp_op_args *args, conv *c)
{
    const sparta_tensor *x = &args->in[0], *w = &args->in[1];
    SP_TRY(sp_window_read(cx, args->attrs, x->rank - 2, w->dim + 2, &c->w));
    c->args = args;
    c->channels = c->transposed ? w->dim[0] / c->w.group : w->dim[1];
    c->filters = c->transposed ? w->dim[1] : w->dim[0] / c->w.group;
    sp_window_sizes(&c->w, x, c->in);
    sp_window_sizes(&c->w, &args->out[0], c->out);
    return SPARTA_OK;
}

sparta_status sp_builtin_Conv(sparta_ctx *cx, const sp_op_args *args)
{
    sparta_tensor y = args->out[0];
    conv c = {.transposed = false};
    SP_TRY(read(cx, args, &c));
    SP_TRY(sp_window_place(cx, &c.w, c.in, c.out));
    if (sparta_tensor_elements(&y) == 0) return SPARTA_OK;
    join_rows(&c, &y);
    return convolve(cx, &c, &y, c.out[2], slide);
}

sparta_status sp_builtin_ConvTranspose(sparta_ctx *cx, const sp_op_args *args)
{
    const sp_attr *shape = sp_attr_find(args->attrs, "output_shape");
    conv c = {.transposed = true};
    SP_TRY(read(cx, args, &c));
    if (sparta_tensor_elements(&args->out[0]) == 0) return SPARTA_OK;
    place(&c, shape && shape->n > 0);
    return convolve(cx, &c, &args->out[0], sp_window_volume(c.out), spread);
}
