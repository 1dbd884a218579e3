/* Dropout: type and dims of the first input; the second output, the mask, is bool. Ratio and training_mode
 * are scalars. */
#include "ops/flow.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    SP_TRY(sp_ops_types(g, n, 1, SP_FLOATS));
    SP_TRY(sp_ops_types(g, n, 2, SP_BOOLS));
    for (int i = 1; i < 3; i++) SP_TRY(sp_ops_scalar(g, n, i));
    sp_ops_set(n, 1, SPARTA_BOOL, &n->in[0]->dims);
    return sp_ops_same(g, n);
}

/* The mask is no element of the input: with it the whole is a function. */
static sparta_status axes(sp_axes *a)
{
    SP_TRY(sp_flow_same(a));
    if (a->n->n_out > 1) a->how = SP_FLOW_FUNCTION;
    return SPARTA_OK;
}

SP_RULE(Dropout, shape, SP_FLOATS, SP_EXACT, axes, NULL, "the same elements; the mask is true",
        "training mode");
