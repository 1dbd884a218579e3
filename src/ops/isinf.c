/* IsInf: bools with the dims of the input. */
#include "ops/rule.h"

sparta_status sparta_shape_IsInf(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_test(g, n, SPARTA_FLOATS);
}
