/* Pools of f32: each window's rows are folded into one line, which is as long as the row, and windows slide along that.
 *
 *     x  . . . . . . .  \
 *        . . . . . . .   >  line  . . . . . . .   -->  y  . . .
 *        . . . . . . .  /
 */
#include "builtin/quick.h"
#include "builtin/window.h"
#include <math.h>
#include <string.h>

enum { ROWS = 64 }; /* of a window */

typedef struct span { /* of a window along one dim: taps [from, to) are inside, `counted` count */
    int64_t first, from, to, counted;
} span;

typedef struct pool {
    sp_window w;
    int64_t in[3], out[3];
    bool average, count_padding;
    const float *x;
    float *y;
    float *share; /* (out[2]): 1 / places of a window along a row that count */
    span *spans[2];
    int64_t most; /* outputs that one line has room for */
    const sp_quick_kernels *kernels;
} pool;

/* Rows of a window that are inside. */
static int64_t find_rows(const pool *p, const float *plane, const span *deep, const span *high,
                         const float **row)
{
    int64_t n = 0;
    for (int64_t z = deep->from; z < deep->to; z++)
        for (int64_t y = high->from; y < high->to; y++) {
            const int64_t in_plane = (deep->first + z * p->w.dilation[0]) * p->in[1];
            row[n++] = plane + (in_plane + high->first + y * p->w.dilation[1]) * p->in[2];
        }
    return n;
}

/* Columns [at, at + n) of so many rows as one line; what is outside is nothing. */
static void fold_rows(const pool *p, const float *const *row, int64_t rows, int64_t at, int64_t n,
                      float *line)
{
    const float none = p->average ? 0 : -INFINITY;
    const int64_t from = SP_MIN(SP_MAX(-at, (int64_t)0), n);
    const int64_t to = rows ? SP_MAX(SP_MIN(n, p->in[2] - at), from) : from;
    const float *x[ROWS];
    for (int64_t i = 0; i < rows; i++) x[i] = row[i] + (at + from);
    if (to > from) p->kernels->join[!p->average](line + from, x, rows, to - from);
    for (int64_t i = 0; i < from; i++) line[i] = none;
    for (int64_t i = to; i < n; i++) line[i] = none;
}

static void pool_row(const pool *p, const float *plane, const span *deep, const span *high, float *y)
{
    float line[SP_LINE];
    const float *row[ROWS];
    const sp_window *w = &p->w;
    const int64_t rows = find_rows(p, plane, deep, high, row);
    const float share = 1 / (float)(deep->counted * high->counted);
    for (int64_t i = 0; i < p->out[2]; i += p->most) {
        const int64_t n = SP_MIN(p->most, p->out[2] - i);
        fold_rows(p, row, rows, i * w->stride[2] - w->before[2],
                  (n - 1) * w->stride[2] + sp_window_effective(w, 2), line);
        p->kernels->slide[!p->average](y + i, line, n, w->stride[2], w->kernel[2], w->dilation[2]);
        if (p->average) p->kernels->multiply_by(y + i, p->share + i, n, share);
    }
}

static void pool_planes(void *arg, int64_t from, int64_t to)
{
    const pool *p = arg;
    for (int64_t i = from; i < to; i++) {
        const float *plane = p->x + i * sp_window_volume(p->in);
        float *y = p->y + i * sp_window_volume(p->out);
        for (int64_t z = 0; z < p->out[0]; z++)
            for (int64_t k = 0; k < p->out[1]; k++, y += p->out[2])
                pool_row(p, plane, &p->spans[0][z], &p->spans[1][k], y);
    }
}

/* Where windows stand, once for all planes. */
static sparta_status place(sparta_ctx *cx, pool *p)
{
    p->most = (SP_LINE - sp_window_effective(&p->w, 2)) / p->w.stride[2] + 1;
    p->share = sp_alloc_array(cx, (size_t)p->out[2], sizeof *p->share);
    SP_NEED(cx, p->share);
    for (int64_t o = 0, first, low, high; o < p->out[2]; o++)
        p->share[o] = 1 / (float)sp_window_taps(&p->w, p->in, 2, o, p->count_padding, &first, &low, &high);
    for (int i = 0; i < 2; i++) {
        p->spans[i] = sp_alloc_array(cx, (size_t)p->out[i], sizeof *p->spans[i]);
        SP_NEED(cx, p->spans[i]);
        for (int64_t o = 0; o < p->out[i]; o++) {
            span *s = &p->spans[i][o];
            s->counted = sp_window_taps(&p->w, p->in, i, o, p->count_padding, &s->first, &s->from, &s->to);
        }
    }
    return SPARTA_OK;
}

static bool plain(const sp_op_args *args)
{
    for (int i = 1; i < args->n_out; i++)
        if (args->out[i].rank >= 0) return false;
    return sp_quick_floats(&args->in[0]) && sp_quick_floats(&args->out[0]) &&
           sp_tensor_contiguous(&args->in[0]) && sp_tensor_contiguous(&args->out[0]);
}

static sparta_status windows(sparta_ctx *cx, const sp_op_args *args, bool average, bool *done)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    pool p = {.average = average,
              .count_padding = sp_attr_int(args->attrs, "count_include_pad", 0),
              .x = x->data,
              .y = y->data,
              .kernels = sp_quick_here()};
    if (!plain(args)) return SPARTA_OK;
    SP_TRY(sp_window_read(cx, args->attrs, x->rank - 2, NULL, &p.w));
    sp_window_sizes(&p.w, x, p.in);
    sp_window_sizes(&p.w, y, p.out);
    SP_TRY(sp_window_place(cx, &p.w, p.in, p.out));
    if (p.w.kernel[0] > ROWS || p.w.kernel[1] > ROWS / p.w.kernel[0] ||
        sp_window_effective(&p.w, 2) > SP_LINE)
        return SPARTA_OK;
    *done = true;
    const int64_t each = 2 * (p.w.kernel[0] * p.w.kernel[1] + p.w.kernel[2]);
    sparta_status status = place(cx, &p);
    if (status == SPARTA_OK)
        status = sp_ctx_share(cx, x->dim[0] * x->dim[1], sp_window_volume(p.out) * each, pool_planes, &p);
    sp_free(cx, p.share);
    sp_free(cx, p.spans[0]);
    sp_free(cx, p.spans[1]);
    return status;
}

sparta_status sp_quick_MaxPool(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    return windows(cx, args, false, done);
}

sparta_status sp_quick_AveragePool(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    return windows(cx, args, true, done);
}

/* ------------------------------------------------------------------ whole planes */
typedef struct planes {
    const float *x;
    float *y;
    int64_t n;
    bool average;
    const sp_quick_kernels *kernels;
} planes;

static void fold_planes(void *arg, int64_t from, int64_t to)
{
    const planes *p = arg;
    for (int64_t i = from; i < to; i++) {
        const float *x = p->x + i * p->n;
        p->y[i] = p->average ? p->kernels->sum(x, p->n, 0) / (float)p->n : p->kernels->largest(x, p->n, 0);
    }
}

static sparta_status global(sparta_ctx *cx, const sp_op_args *args, bool average, bool *done)
{
    const sparta_tensor *x = &args->in[0];
    if (!plain(args) || x->rank < 2 || sparta_tensor_elements(x) == 0) return SPARTA_OK;
    planes p = {x->data, args->out[0].data, 1, average, sp_quick_here()};
    for (int i = 2; i < x->rank; i++) p.n *= x->dim[i];
    *done = true;
    return sp_ctx_share(cx, x->dim[0] * x->dim[1], 4 * p.n, fold_planes, &p);
}

sparta_status sp_quick_GlobalMaxPool(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    return global(cx, args, false, done);
}

sparta_status sp_quick_GlobalAveragePool(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    return global(cx, args, true, done);
}
