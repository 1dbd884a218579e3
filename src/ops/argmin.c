/* ArgMin: the dim at attribute axis becomes 1, or goes when attribute keepdims=0; indices are i64. */
#include "ops/flow.h"
#include "ops/arg.h"

sparta_status sparta_shape_ArgMin(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_arg(g, n);
}

const sparta_flow sparta_flow_ArgMin = {
    SPARTA_EXACT, "known where all it compares is, which stays", "numbers", "", sparta_flow_arg, NULL};
