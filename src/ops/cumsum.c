/* CumSum: type and dims of the first input; the axis is a scalar. */
#include "ops/flow.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    SP_TRY(sp_ops_types(g, n, 1, SP_INDICES));
    SP_TRY(sp_ops_scalar(g, n, 1));
    SP_TRY(sp_ops_rank(g, n, 0, 1, SPARTA_RANK));
    return sp_ops_same(g, n);
}

/* Sums of a constant differ from element to element: only zeros pass. */
static sparta_status axes(sp_axes *a)
{
    const sparta_tensor *t = a->n->in[1]->constant;
    bool whole[SPARTA_RANK] = {false};
    int axis, rank = a->n->in[0]->dims.rank;
    if (!t) return SPARTA_OK;
    SP_TRY(sp_ops_axis(a->g, a->n, sp_element_get_int(t->dtype, t->data, 0), rank, &axis));
    whole[axis] = true;
    SP_TRY(sp_flow_along(a, whole, "a running sum goes over them"));
    a->how = SP_FLOW_PRODUCT;
    a->in[0].role = SP_FACTOR;
    a->in[1] = (sp_flow_operand){.role = SP_SIDE};
    a->no_values = true;
    return SPARTA_OK;
}

SP_RULE(CumSum, shape, SP_NUMBERS, SP_CONSERVATIVE, axes, NULL,
        "zero where the line along the axis is; all of the line stays", "");
