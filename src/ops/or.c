/* Or: bools; the dims of both inputs broadcast against each other. */
#include "ops/ints.h"

sparta_status sparta_shape_Or(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_binary(g, n, SPARTA_BOOLS, NULL);
}
