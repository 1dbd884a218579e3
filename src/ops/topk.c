/* TopK: the dims of x with k, the second input, at attribute axis; values have the type of x, indices are i64. */
#include "ops/ints.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    sp_dims dims = n->in[0]->dims;
    sp_list k;
    int64_t count, size;
    int axis;
    SP_TRY(sp_ops_axis(g, n, sp_attr_int(&n->attrs, "axis", -1), dims.rank, &axis));
    SP_TRY(sp_ops_list(g, n, 1, "k", &k));
    if (k.n != 1) return sp_ops_fail(g, n, SPARTA_E_SHAPE, "k has %d elements; it must be one", k.n);
    bool known = sp_expr_is_const(k.x[0], &count);
    if (known && (count < 0 || (sp_expr_is_const(dims.dim[axis], &size) && count > size)))
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "k is %lld and axis %d has %s elements", (long long)count,
                           axis, sp_ops_say(g, dims.dim[axis]));
    dims.dim[axis] = k.x[0];
    sp_ops_set(n, 0, n->in[0]->dtype, &dims);
    sp_ops_set(n, 1, SPARTA_I64, &dims);
    return SPARTA_OK;
}

/* x: b n, y and indices: b k. */
static sparta_status axes(sp_axes *a)
{
    const sp_value *x = a->n->in[0];
    int axis, label[SPARTA_RANK], k;
    SP_TRY(sp_ops_axis(a->g, a->n, sp_attr_int(&a->n->attrs, "axis", -1), x->dims.rank, &axis));
    SP_TRY(sp_axes_labels(a, x, label));
    SP_TRY(sp_axes_label(a, a->n->out[0]->dims.dim[axis], SP_EACH, "it makes them", &k));
    a->how = SP_FLOW_FUNCTION;
    a->no_values = true;
    a->in[0].role = SP_ARG;
    a->label[label[axis]].kind = SP_WHOLE;
    a->label[label[axis]].why = "which of them it takes is known only as the model runs";
    for (int i = 0; i < x->dims.rank; i++) a->in[0].axis[i] = sp_axis_of(label[i]);
    for (int o = 0; o < a->n->n_out; o++) {
        a->out[o].role = SP_ARG;
        for (int i = 0; i < x->dims.rank; i++) a->out[o].axis[i] = sp_axis_of(i == axis ? k : label[i]);
    }
    return SPARTA_OK;
}

SP_RULE(TopK, shape, SP_NUMBERS, SP_CONSERVATIVE, axes, NULL,
        "line by line along the axis, whose elements all stay", "");
