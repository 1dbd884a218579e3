/* Max: the dims of all inputs broadcast against each other; contents of sizes are followed. */
#include "ops/ints.h"

sparta_status sparta_shape_Max(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_variadic(g, n, sparta_ints_max);
}
