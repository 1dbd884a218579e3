/* Not: type and dims of the input. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sparta_shape_Not(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_unary(g, n, SPARTA_BOOLS);
}

const sparta_flow sparta_flow_Not = {SPARTA_EXACT, "element by element", "bools", "", sparta_flow_each, NULL};
