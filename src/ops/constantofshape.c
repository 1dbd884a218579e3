/* ConstantOfShape: the dims that the input holds, in the type of attribute value (f32 without it). */
#include "ops/ints.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    sp_list shape;
    sp_dims dims = {.rank = 0};
    const sp_attr *value = sp_attr_find(&n->attrs, "value");
    if (value && sparta_tensor_elements(value->tensor) != 1)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "value has %lld elements; it must be one",
                           (long long)sparta_tensor_elements(value->tensor));
    SP_TRY(sp_ops_list(g, n, 0, "the shape", &shape));
    for (int i = 0; i < shape.n; i++) SP_TRY(sp_ops_append(g, n, &dims, shape.x[i]));
    return sp_ops_done(n, value ? value->tensor->dtype : SPARTA_F32, &dims);
}

/* y: whatever labels, made here, and filled with one value. */
static sparta_status axes(sp_axes *a)
{
    const sp_value *y = a->n->out[0];
    const sp_attr *value = sp_attr_find(&a->n->attrs, "value");
    int label[SPARTA_RANK];
    for (int i = 0; i < y->dims.rank; i++)
        if (sp_expr_is(y->dims.dim[i], 0)) return SPARTA_OK; /* nothing is in it */
    SP_TRY(sp_axes_labels(a, y, label));
    a->how = SP_FLOW_MOVE;
    a->fill = value ? value->tensor : NULL;
    a->out[0].role = SP_ARG;
    for (int i = 0; i < y->dims.rank; i++) {
        a->label[label[i]].made = true;
        a->out[0].axis[i] = sp_axis_of(label[i]);
    }
    return SPARTA_OK;
}

static sparta_status shrink(const sp_shrink *s)
{
    const sp_dims *y = &s->n->out[0]->dims;
    int64_t shape[SPARTA_RANK] = {0};
    bool set[SPARTA_RANK];
    for (int i = 0; i < y->rank; i++) set[i] = sp_expr_is_const(y->dim[i], &shape[i]);
    return sp_shrink_some(s, 0, y->rank, set, shape);
}

SP_RULE(ConstantOfShape, shape, SP_ALL, SP_EXACT, axes, shrink, "all of it is its value",
        "a shape computed from data");
