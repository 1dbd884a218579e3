/* Trilu: type and dims of the input, which has at least two; k is a scalar. */
#include "ops/flow.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    SP_TRY(sp_ops_types(g, n, 1, SP_INDICES));
    SP_TRY(sp_ops_scalar(g, n, 1));
    SP_TRY(sp_ops_rank(g, n, 0, 2, SPARTA_RANK));
    return sp_ops_same(g, n);
}

/* A triangle of a constant is no constant: only zeros pass. */
static sparta_status axes(sp_axes *a)
{
    int rank = a->n->in[0]->dims.rank;
    SP_TRY(sp_flow_same(a));
    a->how = SP_FLOW_PRODUCT;
    a->in[0].role = SP_FACTOR;
    a->no_values = true;
    for (int i = rank - 2; i < rank; i++) {
        a->label[i].why = "it keeps a triangle of them";
        a->label[i].run = SP_MAX(a->label[i].size, 0);
    }
    return SPARTA_OK;
}

SP_RULE(Trilu, shape, SP_ANY, SP_CONSERVATIVE, axes, NULL, "zero where the input is; rows and columns stay",
        "");
