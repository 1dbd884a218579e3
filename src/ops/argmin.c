/* ArgMin: the dim at attribute axis becomes 1, or goes when attribute keepdims=0; indices are i64. */
#include "ops/flow.h"
#include "ops/arg.h"

sparta_status sp_shape_ArgMin(sp_graph *g, sp_node *n)
{
    return sp_ops_arg(g, n);
}

const sp_flow sp_flow_ArgMin = {
    SP_EXACT, "known where all it compares is, which stays", "numbers", "", sp_flow_arg, NULL};
