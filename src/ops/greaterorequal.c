/* GreaterOrEqual: bools; the dims of both inputs broadcast against each other. Comparisons of sizes are
 * decided where they can be. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_GreaterOrEqual(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_compare(g, n, SPARTA_NUMBERS, sparta_ints_greater_or_equal);
}

const sparta_flow sparta_flow_GreaterOrEqual = {SPARTA_EXACT, "element by element", "numbers",
                                                "",           sparta_flow_each,     NULL};
