/* TopK: the dims of x with k, the second input, at attribute axis; values have the type of x, indices are i64. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_TopK(sparta_graph *g, sparta_node *n)
{
    sparta_dims dims = n->in[0]->dims;
    sparta_list k;
    int64_t count, size;
    int axis;
    SPARTA_TRY(sparta_ops_types(g, n, 0, SPARTA_NUMBERS));
    SPARTA_TRY(sparta_ops_axis(g, n, sparta_attr_int(&n->attrs, "axis", -1), dims.rank, &axis));
    SPARTA_TRY(sparta_ops_list(g, n, 1, "k", &k));
    if (k.n != 1) return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "k has %d elements; it must be one", k.n);
    bool known = sparta_expr_is_const(k.x[0], &count);
    if (known && (count < 0 || (sparta_expr_is_const(dims.dim[axis], &size) && count > size)))
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "k is %lld and axis %d has %s elements",
                               (long long)count, axis, sparta_ops_say(g, dims.dim[axis]));
    dims.dim[axis] = k.x[0];
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    sparta_ops_set(n, 1, SPARTA_I64, &dims);
    return SPARTA_OK;
}

/* x: b n, y and indices: b k. */
static sparta_status axes(sparta_axes *a)
{
    const sparta_value *x = a->n->in[0];
    int axis, label[SPARTA_RANK], k;
    SPARTA_TRY(sparta_ops_axis(a->g, a->n, sparta_attr_int(&a->n->attrs, "axis", -1), x->dims.rank, &axis));
    SPARTA_TRY(sparta_axes_labels(a, x, label));
    SPARTA_TRY(sparta_axes_label(a, a->n->out[0]->dims.dim[axis], SPARTA_EACH, "it makes them", &k));
    a->how = SPARTA_FLOW_FUNCTION;
    a->no_values = true;
    a->in[0].role = SPARTA_ARG;
    a->label[label[axis]].kind = SPARTA_WHOLE;
    a->label[label[axis]].why = "which of them it takes is known only as the model runs";
    for (int i = 0; i < x->dims.rank; i++) a->in[0].axis[i] = sparta_axis_of(label[i]);
    for (int o = 0; o < a->n->n_out; o++) {
        a->out[o].role = SPARTA_ARG;
        for (int i = 0; i < x->dims.rank; i++) a->out[o].axis[i] = sparta_axis_of(i == axis ? k : label[i]);
    }
    return SPARTA_OK;
}

const sparta_flow sparta_flow_TopK = {
    SPARTA_CONSERVATIVE, "line by line along the axis, whose elements all stay", "numbers", "", axes, NULL};
