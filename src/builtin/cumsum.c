/* CumSum: y[i] = x[0] + ... + x[i] along the axis of the second input; attribute exclusive=1 leaves x[i] out,
 * reverse=1 sums from the end. Integers wrap, floats are summed in double. */
#include "builtin/view.h"

typedef struct lane { /* one line along the axis: element offsets and steps */
    const sparta_tensor *x, *y;
    int64_t x_at, y_at, x_step, y_step, n;
    bool exclusive;
} lane;

static void sum_real(const lane *l)
{
    double sum = 0;
    for (int64_t i = 0; i < l->n; i++) {
        double before = sum;
        sum += sp_element_get(l->x->dtype, l->x->data, l->x_at + i * l->x_step);
        sp_element_set(l->y->dtype, l->y->data, l->y_at + i * l->y_step, l->exclusive ? before : sum);
    }
}

static void sum_integer(const lane *l)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < l->n; i++) {
        uint64_t before = sum;
        sum += (uint64_t)sp_element_get_int(l->x->dtype, l->x->data, l->x_at + i * l->x_step);
        sp_element_set_int(l->y->dtype, l->y->data, l->y_at + i * l->y_step,
                           (int64_t)(l->exclusive ? before : sum));
    }
}

sparta_status sp_builtin_CumSum(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *out = &args->out[0];
    int64_t which = sp_element_get_int(args->in[1].dtype, args->in[1].data, 0);
    int axis;
    SP_TRY(sp_builtin_axis(cx, "CumSum", which, x->rank, &axis));
    bool reverse = sp_attr_int(args->attrs, "reverse", 0),
         exclusive = sp_attr_int(args->attrs, "exclusive", 0);
    int64_t n = x->dim[axis], from = reverse ? n - 1 : 0, by = reverse ? -1 : 1;
    sparta_tensor x0 = sp_view_drop(x, axis, 0), y0 = sp_view_drop(out, axis, 0);
    const sparta_tensor *both[] = {&x0, &y0};
    for (sp_cursor w = sp_cursor_begin(x0.rank, x0.dim, 2, both); n > 0 && w.more; sp_cursor_next(&w)) {
        lane l = {x,
                  out,
                  w.at[0] + from * x->stride[axis],
                  w.at[1] + from * out->stride[axis],
                  by * x->stride[axis],
                  by * out->stride[axis],
                  n,
                  exclusive};
        if (sp_dtype_is_float(x->dtype))
            sum_real(&l);
        else
            sum_integer(&l);
    }
    return SPARTA_OK;
}
