/* CumSum: type and dims of the first input; the axis is a scalar. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sparta_shape_CumSum(sparta_graph *g, sparta_node *n)
{
    SPARTA_TRY(sparta_ops_types(g, n, 1, SPARTA_INDICES));
    SPARTA_TRY(sparta_ops_scalar(g, n, 1));
    SPARTA_TRY(sparta_ops_rank(g, n, 0, 1, SPARTA_RANK));
    return sparta_ops_unary(g, n, SPARTA_NUMBERS);
}

/* Sums of a constant differ from element to element: only zeros pass. */
static sparta_status axes(sparta_axes *a)
{
    const sparta_tensor *t = a->n->in[1]->constant;
    bool whole[SPARTA_RANK] = {false};
    int axis, rank = a->n->in[0]->dims.rank;
    if (!t) return SPARTA_OK;
    SPARTA_TRY(sparta_ops_axis(a->g, a->n, sparta_element_get_int(t->dtype, t->data, 0), rank, &axis));
    whole[axis] = true;
    SPARTA_TRY(sparta_flow_along(a, whole, "a running sum goes over them"));
    a->how = SPARTA_FLOW_PRODUCT;
    a->in[0].role = SPARTA_FACTOR;
    a->in[1] = (sparta_flow_operand){.role = SPARTA_SIDE};
    a->no_values = true;
    return SPARTA_OK;
}

const sparta_flow sparta_flow_CumSum = {SPARTA_CONSERVATIVE,
                                        "zero where the line along the axis is; all of the line stays",
                                        "numbers",
                                        "",
                                        axes,
                                        NULL};
