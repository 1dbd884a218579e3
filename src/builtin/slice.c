/* Slice: y = x[start:end:step] along the axes of the fourth input (by default the first ones), bounds clamped
 * to the dims, negative ones counted from the back. */
#include "builtin/view.h"

static int64_t element(const sp_op_args *args, int input, int64_t i, int64_t otherwise)
{
    if (!sp_op_has(args, input)) return otherwise;
    const sparta_tensor *t = &args->in[input];
    return sp_element_get_int(t->dtype, t->data, i * t->stride[0]);
}

sparta_status sp_builtin_Slice(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *in = args->in, *out = &args->out[0];
    int64_t n = sparta_tensor_elements(&in[1]);
    sparta_tensor view = in[0];
    for (int64_t i = 0; i < n; i++) {
        int axis;
        int64_t first, step = element(args, 4, i, 1);
        SP_TRY(sp_builtin_axis(cx, "Slice", element(args, 3, i, i), view.rank, &axis));
        if (step == 0) return sp_fail(cx, SPARTA_E_RANGE, "Slice: the step of axis %d is 0", axis);
        int64_t count =
            sp_slice_count(in[0].dim[axis], element(args, 1, i, 0), element(args, 2, i, 0), step, &first);
        /* Symbolic bounds are assumed to be within the dim: see the shape rule. */
        if (count != out->dim[axis])
            return sp_fail(
                cx, SPARTA_E_RANGE,
                "Slice: axis %d has %lld elements where %lld are needed; the bounds are outside of x", axis,
                (long long)count, (long long)out->dim[axis]);
        view.dim[axis] = count;
        if (count == 0) continue;
        view = sp_view_at(&view, first * in[0].stride[axis]);
        /* One element: a huge step is no stride. */
        view.stride[axis] = count > 1 ? in[0].stride[axis] * step : 0;
    }
    return sp_tensor_copy(cx, &view, out);
}
