/* Conv: y[n, m, o] = bias[m] + sum over c, k of w[m, c, k] x[n, c', o*stride - before + k*dilation], positions outside of x
 * being 0. x (N, C, in...), w (M, C/group, kernel...), bias (M), y (N, M, out...); filter m reads the channels c' of its group.
 *
 * One row of outputs is summed in double at a time: for each tap and each channel a multiple of a row of x is added, over the
 * part where the tap lies inside of x. */
#include "builtin/window.h"

typedef struct conv {
    sp_window w;
    int64_t in[SP_WINDOW_DIMS], out[SP_WINDOW_DIMS];
    int64_t channels, filters; /* of one group */
    double *x;                 /* (channels, in) of one group of one image */
    double *k;                 /* (channels, kernel) of one filter */
    double *row;               /* (out[2]) */
} conv;

/* row[o] += sum over all channels of their weight at one tap times x[at + o*stride]; k is the tap of channel 0, x its row.
 * Four channels at a time, so that the row is read and written a quarter as often. */
static void add_tap(const conv *c, const double *k, const double *x, int64_t from, int64_t to, int64_t at)
{
    const int64_t stride = c->w.stride[2], taps = sp_window_volume(c->w.kernel),
                  plane = sp_window_volume(c->in);
    double *restrict row = c->row;
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
                add_tap(c, c->k + (kz * w->kernel[1] + ky) * w->kernel[2] + kx,
                        c->x + (iz * c->in[1] + iy) * c->in[2], from, to, at);
            }
}

/* All outputs of one filter on one image; y is (out...) */
static sparta_status filter(sparta_ctx *cx, const conv *c, double bias, const sparta_tensor *y)
{
    const int last = y->rank - 1;
    for (int64_t oz = 0; oz < c->out[0]; oz++)
        for (int64_t oy = 0; oy < c->out[1]; oy++) {
            SP_TRY(sp_check_cancel(cx));
            for (int64_t o = 0; o < c->out[2]; o++) c->row[o] = bias;
            sum_row(c, oz, oy);
            int64_t at =
                (last > 1 ? oz * y->stride[last - 2] : 0) + (last > 0 ? oy * y->stride[last - 1] : 0);
            for (int64_t o = 0; o < c->out[2]; o++)
                sp_element_set(y->dtype, y->data, at + o * y->stride[last], c->row[o]);
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

static sparta_status convolve(sparta_ctx *cx, conv *c, const sp_op_args *args, const sparta_tensor *y)
{
    const sparta_tensor *weights = &args->in[1], *bias = sp_op_has(args, 2) ? &args->in[2] : NULL;
    for (int64_t n = 0; n < y->dim[0]; n++) {
        sparta_tensor image = sp_view_drop(&args->in[0], 0, n), result = sp_view_drop(y, 0, n);
        for (int64_t m = 0; m < y->dim[1]; m++) {
            if (m % c->filters == 0) {
                sparta_tensor group = sp_view_part(&image, 0, m / c->filters * c->channels, c->channels);
                sp_window_load(&group, c->x);
            }
            sparta_tensor one = sp_view_drop(weights, 0, m), plane = sp_view_drop(&result, 0, m);
            sp_window_load(&one, c->k);
            double b = bias ? sp_element_get(bias->dtype, bias->data, m * bias->stride[0]) : 0;
            SP_TRY(filter(cx, c, b, &plane));
        }
    }
    return SPARTA_OK;
}

sparta_status sp_builtin_Conv(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *w = &args->in[1];
    sparta_tensor y = args->out[0];
    conv c = {.channels = w->dim[1]};
    SP_TRY(sp_window_read(cx, args->attrs, x->rank - 2, w->dim + 2, &c.w));
    c.filters = w->dim[0] / c.w.group;
    sp_window_sizes(&c.w, x, c.in);
    sp_window_sizes(&c.w, &y, c.out);
    SP_TRY(sp_window_place(cx, &c.w, c.in, c.out));
    if (sparta_tensor_elements(&y) == 0) return SPARTA_OK;
    join_rows(&c, &y);
    c.x = sp_alloc_array(cx, (size_t)(c.channels * sp_window_volume(c.in)), sizeof *c.x);
    c.k = sp_alloc_array(cx, (size_t)(c.channels * sp_window_volume(c.w.kernel)), sizeof *c.k);
    c.row = sp_alloc_array(cx, (size_t)c.out[2], sizeof *c.row);
    sparta_status status = c.x && c.k && c.row ? convolve(cx, &c, args, &y) : sp_ctx_status(cx);
    sp_free(cx, c.x);
    sp_free(cx, c.k);
    sp_free(cx, c.row);
    return status;
}
