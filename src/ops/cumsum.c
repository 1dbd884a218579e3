/* CumSum: type and dims of the first input; the axis is a scalar. */
#include "ops/rule.h"

sparta_status sparta_shape_CumSum(sparta_graph *g, sparta_node *n)
{
    SPARTA_TRY(sparta_ops_types(g, n, 1, SPARTA_INDICES));
    SPARTA_TRY(sparta_ops_scalar(g, n, 1));
    SPARTA_TRY(sparta_ops_rank(g, n, 0, 1, SPARTA_RANK));
    return sparta_ops_unary(g, n, SPARTA_NUMBERS);
}
