/* Exp: type and dims of the input. */
#include "ops/rule.h"

sparta_status sparta_shape_Exp(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_unary(g, n, SPARTA_FLOATS);
}
