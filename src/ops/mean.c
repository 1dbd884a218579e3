/* Mean: the dims of all inputs broadcast against each other. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sp_shape_Mean(sp_graph *g, sp_node *n)
{
    SP_TRY(sp_ops_types(g, n, 0, SP_FLOATS));
    return sp_ops_variadic(g, n, NULL);
}

const sp_flow sp_flow_Mean = {SP_EXACT, "element by element", "floats", "", sp_flow_each, NULL};
