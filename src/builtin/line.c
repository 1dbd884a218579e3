/* The loop of line.h. */
#include "builtin/line.h"
#include "builtin/view.h"

sparta_status sparta_builtin_lines(sparta_ctx *cx, const sparta_op_args *args, const char *op,
                                   void (*f)(double *line, int64_t n))
{
    sparta_tensor x = args->in[0], y = args->out[0];
    int axis;
    if (x.rank == 0) { /* a scalar is one line of one */
        x.rank = y.rank = 1;
        x.dim[0] = y.dim[0] = x.stride[0] = y.stride[0] = 1;
    }
    SPARTA_TRY(sparta_builtin_axis(cx, op, sparta_attr_int(args->attrs, "axis", -1), x.rank, &axis));
    int64_t n = x.dim[axis];
    double *line = sparta_alloc_array(cx, (size_t)n, sizeof *line);
    SPARTA_NEED(cx, line);
    sparta_tensor x0 = sparta_view_drop(&x, axis, 0), y0 = sparta_view_drop(&y, axis, 0);
    const sparta_tensor *both[] = {&x0, &y0};
    for (sparta_walk w = sparta_walk_begin(x0.rank, x0.dim, 2, both); n > 0 && w.more; sparta_walk_next(&w)) {
        for (int64_t i = 0; i < n; i++)
            line[i] = sparta_element_get(x.dtype, x.data, w.at[0] + i * x.stride[axis]);
        f(line, n);
        for (int64_t i = 0; i < n; i++)
            sparta_element_set(y.dtype, y.data, w.at[1] + i * y.stride[axis], line[i]);
    }
    sparta_free(cx, line);
    return SPARTA_OK;
}
