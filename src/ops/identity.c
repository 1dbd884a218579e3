/* Identity: everything of the input. */
#include "ops/ints.h"

sparta_status sparta_shape_Identity(sparta_graph *g, sparta_node *n)
{
    SPARTA_TRY(sparta_ops_unary(g, n, SPARTA_ANY));
    return sparta_ops_move(g, n, 1);
}
