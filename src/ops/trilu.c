/* Trilu: type and dims of the input, which has at least two; k is a scalar. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sparta_shape_Trilu(sparta_graph *g, sparta_node *n)
{
    SPARTA_TRY(sparta_ops_types(g, n, 1, SPARTA_INDICES));
    SPARTA_TRY(sparta_ops_scalar(g, n, 1));
    SPARTA_TRY(sparta_ops_rank(g, n, 0, 2, SPARTA_RANK));
    return sparta_ops_unary(g, n, SPARTA_ANY);
}

/* A triangle of a constant is no constant: only zeros pass. */
static sparta_status axes(sparta_axes *a)
{
    int rank = a->n->in[0]->dims.rank;
    SPARTA_TRY(sparta_flow_same(a));
    a->how = SPARTA_FLOW_PRODUCT;
    a->in[0].role = SPARTA_FACTOR;
    a->no_values = true;
    for (int i = rank - 2; i < rank; i++) {
        a->label[i].why = "it keeps a triangle of them";
        a->label[i].run = SPARTA_MAX(a->label[i].size, 0);
    }
    return SPARTA_OK;
}

const sparta_flow sparta_flow_Trilu = {
    SPARTA_CONSERVATIVE, "zero where the input is; rows and columns stay", "any", "", axes, NULL};
