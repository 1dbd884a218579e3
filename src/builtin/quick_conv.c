/* Conv of f32 as products: of each image and group the filters (filters, channels * taps) with a matrix that has,
 * for some rows of outputs, what every tap sees.
 *
 *     columns (channels * taps, outputs)      c, tap 0:   . x x x x      a row of x for each row of outputs, shifted by the tap,
 *                                             c, tap 1:   x x x x x      0 where the tap is outside
 *                                             c, tap 2:   x x x x .
 *
 * A kernel of 1 that visits every position is a product with x itself. */
#include "builtin/quick.h"
#include "builtin/window.h"
#include <math.h>
#include <string.h>

enum {
    BYTES = 1 << 20,
    MOST_BYTES = 1 << 26
}; /* of a matrix: usually, and where one row of outputs needs more */

typedef struct conv {
    sp_window w;
    int64_t in[3], out[3], places; /* places: outputs of one plane */
    int64_t channels, filters;     /* of a group */
    const float *x, *k, *bias;     /* of one image and group; bias NULL: none */
    float *y;
    float *columns;
    int64_t band, first, rows; /* rows of outputs at a time; those in the matrix now */
} conv;

static int64_t depth_of(const conv *c)
{
    return c->channels * sp_window_volume(c->w.kernel);
}

/* What one tap sees of a row of x. */
static void fill_row(const float *x, int64_t stride, int64_t from, int64_t to, int64_t n, float *row)
{
    memset(row, 0, (size_t)from * sizeof *row);
    memset(row + to, 0, (size_t)(n - to) * sizeof *row);
    if (stride == 1)
        memcpy(row + from, x, (size_t)(to - from) * sizeof *row);
    else
        for (int64_t i = 0; i < to - from; i++) row[from + i] = x[i * stride];
}

/* A line of the matrix: one tap of one channel, for all rows of outputs that are in it. */
static void fill_line(const conv *c, int64_t line, float *to)
{
    const sp_window *w = &c->w;
    const int64_t taps = sp_window_volume(w->kernel), channel = line / taps, tap = line % taps, n = c->out[2];
    const int64_t deep = tap / (w->kernel[1] * w->kernel[2]) * w->dilation[0] - w->before[0],
                  high = tap / w->kernel[2] % w->kernel[1] * w->dilation[1] - w->before[1],
                  wide = tap % w->kernel[2] * w->dilation[2] - w->before[2];
    int64_t oz = c->first / c->out[1], oy = c->first % c->out[1], from, end;
    sp_window_range(wide, w->stride[2], c->in[2], n, &from, &end);
    for (int64_t row = 0; row < c->rows; row++, to += n) {
        const int64_t z = oz * w->stride[0] + deep, y = oy * w->stride[1] + high;
        if (z < 0 || z >= c->in[0] || y < 0 || y >= c->in[1] || from == end)
            memset(to, 0, (size_t)n * sizeof *to);
        else
            fill_row(c->x + ((channel * c->in[0] + z) * c->in[1] + y) * c->in[2] +
                         (wide + from * w->stride[2]),
                     w->stride[2], from, end, n, to);
        if (++oy < c->out[1]) continue;
        oy = 0;
        oz++;
    }
}

static void fill_lines(void *arg, int64_t from, int64_t to)
{
    const conv *c = arg;
    for (int64_t line = from; line < to; line++) fill_line(c, line, c->columns + line * c->rows * c->out[2]);
}

static void add_bias(void *arg, int64_t from, int64_t to)
{
    const conv *c = arg;
    for (int64_t m = from; m < to; m++)
        for (int64_t i = 0; i < c->places; i++) c->y[m * c->places + i] += c->bias[m];
}

/* One group of one image. */
static sparta_status multiply_group(sparta_ctx *cx, conv *c)
{
    const int64_t depth = depth_of(c), all = c->out[0] * c->out[1];
    for (c->first = 0; c->first < all; c->first += c->band) {
        bool done;
        c->rows = SP_MIN(c->band, all - c->first);
        const int64_t n = c->rows * c->out[2];
        const sp_products p = {.m = c->filters,
                               .n = n,
                               .k = depth,
                               .a_row = depth,
                               .a_col = 1,
                               .b_row = n,
                               .b_col = 1,
                               .c_row = c->places,
                               .c_col = 1,
                               .a = c->k,
                               .b = c->columns ? c->columns : c->x,
                               .c = c->y + c->first * c->out[2]};
        if (c->columns) SP_TRY(sp_ctx_share(cx, depth, 4 * n, fill_lines, c));
        SP_TRY(sp_quick_products(cx, &p, &done));
    }
    return c->bias ? sp_ctx_share(cx, c->filters, 4 * c->places, add_bias, c) : SPARTA_OK;
}

static sparta_status multiply_all(sparta_ctx *cx, const sp_op_args *args, conv *c)
{
    const int64_t images = args->in[0].dim[0], plane = sp_window_volume(c->in);
    const float *bias = c->bias;
    for (int64_t i = 0; i < images * c->w.group; i++) {
        const int64_t g = i % c->w.group;
        c->x = (const float *)args->in[0].data + i * c->channels * plane;
        c->k = (const float *)args->in[1].data + g * c->filters * depth_of(c);
        c->y = (float *)args->out[0].data + i * c->filters * c->places;
        if (bias) c->bias = bias + g * c->filters;
        SP_TRY(multiply_group(cx, c));
    }
    return SPARTA_OK;
}

/* A kernel of 1 that visits every position once. */
static bool in_place(const conv *c)
{
    for (int i = 0; i < SP_WINDOW_DIMS; i++)
        if (c->w.kernel[i] != 1 || c->w.stride[i] != 1 || c->in[i] != c->out[i] || c->w.before[i])
            return false;
    return true;
}

sparta_status sp_quick_Conv(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    const sparta_tensor *in = args->in, *x = &in[0], *k = &in[1], *y = &args->out[0];
    const bool biased = sp_op_has(args, 2);
    conv c = {.bias = biased ? in[2].data : NULL};
    for (int i = 0; i < 2 + biased; i++)
        if (!sp_quick_floats(&in[i]) || !sp_tensor_contiguous(&in[i])) return SPARTA_OK;
    if (!sp_quick_floats(y) || !sp_tensor_contiguous(y) || x->rank < 3 || k->rank != x->rank)
        return SPARTA_OK;
    SP_TRY(sp_window_read(cx, args->attrs, x->rank - 2, k->dim + 2, &c.w));
    if (x->dim[1] % c.w.group || y->dim[1] % c.w.group || sparta_tensor_elements(x) == 0) return SPARTA_OK;
    sp_window_sizes(&c.w, x, c.in);
    sp_window_sizes(&c.w, y, c.out);
    SP_TRY(sp_window_place(cx, &c.w, c.in, c.out));
    c.channels = x->dim[1] / c.w.group;
    c.filters = y->dim[1] / c.w.group;
    if (k->dim[0] != y->dim[1] || k->dim[1] != c.channels || (biased && in[2].dim[0] != k->dim[0]))
        return SPARTA_OK;
    c.places = sp_window_volume(c.out);
    const double row = 4.0 * (double)depth_of(&c) * (double)c.out[2];
    /* A tap that is outside adds nothing to a sum, not even where its weight is infinite: then 0 would not do in its place. */
    if (row > MOST_BYTES || !isfinite(sp_quick_here()->sum(k->data, sparta_tensor_elements(k), 0)))
        return SPARTA_OK;
    c.band = in_place(&c) ? c.out[0] * c.out[1]
                          : SP_MIN(SP_MAX((int64_t)(BYTES / row), (int64_t)1), c.out[0] * c.out[1]);
    if (!in_place(&c)) {
        c.columns = sp_alloc_array(cx, (size_t)(depth_of(&c) * c.band), (size_t)c.out[2] * sizeof *c.columns);
        SP_NEED(cx, c.columns);
    }
    *done = true;
    const sparta_status status = multiply_all(cx, args, &c);
    sp_free(cx, c.columns);
    return status;
}
