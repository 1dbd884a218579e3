/* ArgMax and ArgMin: the dim at attribute axis becomes 1, or goes when attribute keepdims=0; indices are i64. */
#include "ops/flow.h"
#include "ops/flow.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_dims *x = &n->in[0]->dims;
    sp_dims dims = {.rank = 0};
    int axis;
    SP_TRY(sp_ops_axis(g, n, sp_attr_int(&n->attrs, "axis", 0), x->rank, &axis));
    for (int i = 0; i < x->rank; i++) {
        if (i != axis)
            SP_TRY(sp_ops_append(g, n, &dims, x->dim[i]));
        else if (sp_attr_int(&n->attrs, "keepdims", 1))
            SP_TRY(sp_ops_append(g, n, &dims, sp_expr_const(g->arena, 1)));
    }
    return sp_ops_done(n, SPARTA_I64, &dims);
}

static sparta_status axes(sp_axes *a)
{
    const sp_value *x = a->n->in[0];
    int axis, label[SPARTA_RANK], at = 0, kept = sp_attr_int(&a->n->attrs, "keepdims", 1) != 0;
    SP_TRY(sp_ops_axis(a->g, a->n, sp_attr_int(&a->n->attrs, "axis", 0), x->dims.rank, &axis));
    SP_TRY(sp_axes_labels(a, x, label));
    a->how = SP_FLOW_FUNCTION;
    a->in[0].role = a->out[0].role = SP_ARG;
    a->label[label[axis]].kind = SP_WHOLE;
    a->label[label[axis]].why = "a place among them is the result";
    for (int i = 0; i < x->dims.rank; i++) {
        a->in[0].axis[i] = sp_axis_of(label[i]);
        if (i != axis)
            a->out[0].axis[at++] = sp_axis_of(label[i]);
        else
            at += kept;
    }
    return SPARTA_OK;
}

SP_RULE(ArgMax, shape, SP_NUMBERS, SP_EXACT, axes, NULL, "known where all it compares is, which stays", "");
SP_RULE(ArgMin, shape, SP_NUMBERS, SP_EXACT, axes, NULL, "known where all it compares is, which stays", "");
