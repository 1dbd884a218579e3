/* Trilu: type and dims of the input, which has at least two; k is a scalar. */
#include "ops/rule.h"

sparta_status sparta_shape_Trilu(sparta_graph *g, sparta_node *n)
{
    SPARTA_TRY(sparta_ops_types(g, n, 1, SPARTA_INDICES));
    SPARTA_TRY(sparta_ops_scalar(g, n, 1));
    SPARTA_TRY(sparta_ops_rank(g, n, 0, 2, SPARTA_RANK));
    return sparta_ops_unary(g, n, SPARTA_ANY);
}
