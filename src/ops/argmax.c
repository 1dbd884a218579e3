/* ArgMax: the dim at attribute axis becomes 1, or goes when attribute keepdims=0; indices are i64. */
#include "ops/flow.h"
#include "ops/arg.h"

sparta_status sparta_ops_arg(sparta_graph *g, sparta_node *n)
{
    const sparta_dims *x = &n->in[0]->dims;
    sparta_dims dims = {.rank = 0};
    int axis;
    SPARTA_TRY(sparta_ops_types(g, n, 0, SPARTA_NUMBERS));
    SPARTA_TRY(sparta_ops_axis(g, n, sparta_attr_int(&n->attrs, "axis", 0), x->rank, &axis));
    for (int i = 0; i < x->rank; i++) {
        if (i != axis)
            SPARTA_TRY(sparta_ops_append(g, n, &dims, x->dim[i]));
        else if (sparta_attr_int(&n->attrs, "keepdims", 1))
            SPARTA_TRY(sparta_ops_append(g, n, &dims, sparta_expr_const(g->arena, 1)));
    }
    sparta_ops_set(n, 0, SPARTA_I64, &dims);
    return SPARTA_OK;
}

sparta_status sparta_shape_ArgMax(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_arg(g, n);
}

sparta_status sparta_flow_arg(sparta_axes *a)
{
    const sparta_value *x = a->n->in[0];
    int axis, label[SPARTA_RANK], at = 0, kept = sparta_attr_int(&a->n->attrs, "keepdims", 1) != 0;
    SPARTA_TRY(sparta_ops_axis(a->g, a->n, sparta_attr_int(&a->n->attrs, "axis", 0), x->dims.rank, &axis));
    SPARTA_TRY(sparta_axes_labels(a, x, label));
    a->how = SPARTA_FLOW_FUNCTION;
    a->in[0].role = a->out[0].role = SPARTA_ARG;
    a->label[label[axis]].kind = SPARTA_WHOLE;
    a->label[label[axis]].why = "a place among them is the result";
    for (int i = 0; i < x->dims.rank; i++) {
        a->in[0].axis[i] = sparta_axis_of(label[i]);
        if (i != axis)
            a->out[0].axis[at++] = sparta_axis_of(label[i]);
        else
            at += kept;
    }
    return SPARTA_OK;
}

const sparta_flow sparta_flow_ArgMax = {
    SPARTA_EXACT, "known where all it compares is, which stays", "numbers", "", sparta_flow_arg, NULL};
