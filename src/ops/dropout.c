/* Dropout: type and dims of the first input; the second output, the mask, is bool. Ratio and training_mode
 * are scalars. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sparta_shape_Dropout(sparta_graph *g, sparta_node *n)
{
    SPARTA_TRY(sparta_ops_types(g, n, 1, SPARTA_FLOATS));
    SPARTA_TRY(sparta_ops_types(g, n, 2, SPARTA_BOOLS));
    for (int i = 1; i < 3; i++) SPARTA_TRY(sparta_ops_scalar(g, n, i));
    sparta_ops_set(n, 1, SPARTA_BOOL, &n->in[0]->dims);
    return sparta_ops_unary(g, n, SPARTA_FLOATS);
}

/* The mask is no element of the input: with it the whole is a function. */
static sparta_status axes(sparta_axes *a)
{
    SPARTA_TRY(sparta_flow_same(a));
    if (a->n->n_out > 1) a->how = SPARTA_FLOW_FUNCTION;
    return SPARTA_OK;
}

const sparta_flow sparta_flow_Dropout = {
    SPARTA_EXACT, "the same elements; the mask is true", "floats", "training mode", axes, NULL};
