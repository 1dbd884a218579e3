/* Operators that rewrite every line along one axis by itself: Softmax, LogSoftmax, Hardmax. */
#include "builtin/line.h"
#include "builtin/view.h"
#include <math.h>

/* y = f of each line of x along attribute axis (-1), lines in double. */
static sparta_status lines(sparta_ctx *cx, const sp_op_args *args, const char *op,
                           void (*f)(double *line, int64_t n))
{
    sparta_tensor x = args->in[0], y = args->out[0];
    int axis;
    if (x.rank == 0) { /* a scalar is one line of one */
        x.rank = y.rank = 1;
        x.dim[0] = y.dim[0] = x.stride[0] = y.stride[0] = 1;
    }
    SP_TRY(sp_builtin_axis(cx, op, sp_attr_int(args->attrs, "axis", -1), x.rank, &axis));
    int64_t n = x.dim[axis];
    double *line = sp_alloc_array(cx, (size_t)n, sizeof *line);
    SP_NEED(cx, line);
    sparta_tensor x0 = sp_view_drop(&x, axis, 0), y0 = sp_view_drop(&y, axis, 0);
    const sparta_tensor *both[] = {&x0, &y0};
    for (sp_cursor w = sp_cursor_begin(x0.rank, x0.dim, 2, both); n > 0 && w.more; sp_cursor_next(&w)) {
        for (int64_t i = 0; i < n; i++)
            line[i] = sp_element_get(x.dtype, x.data, w.at[0] + i * x.stride[axis]);
        f(line, n);
        for (int64_t i = 0; i < n; i++)
            sp_element_set(y.dtype, y.data, w.at[1] + i * y.stride[axis], line[i]);
    }
    sp_free(cx, line);
    return SPARTA_OK;
}

/* y = e^(x - max) / sum of e^(x - max). Entries of -inf are 0; a line of nothing but -inf has no maximum to subtract (-inf - -inf) and is
 * NaN, as IEEE says. */
void sp_line_softmax(double *x, int64_t n)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    for (int64_t i = 0; i < n; i++) sum += x[i] = exp(x[i] - max);
    for (int64_t i = 0; i < n; i++) x[i] /= sum;
}

static void log_softmax(double *x, int64_t n)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    for (int64_t i = 0; i < n; i++) sum += exp(x[i] - max);
    for (int64_t i = 0; i < n; i++) x[i] = x[i] - max - log(sum);
}

/* 1 where the line has its first maximum and 0 elsewhere. */
static void mark(double *line, int64_t n)
{
    int64_t at = 0;
    for (int64_t i = 1; i < n; i++)
        if (line[i] > line[at]) at = i;
    for (int64_t i = 0; i < n; i++) line[i] = i == at;
}

SP_REFERENCE(Softmax, lines(cx, args, "Softmax", sp_line_softmax))
SP_REFERENCE(LogSoftmax, lines(cx, args, "LogSoftmax", log_softmax))
SP_REFERENCE(Hardmax, lines(cx, args, "Hardmax", mark))
