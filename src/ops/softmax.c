/* Softmax: type and dims of the input; attribute axis is one of them. */
#include "ops/rule.h"

sparta_status sparta_shape_Softmax(sparta_graph *g, sparta_node *n)
{
    int axis, rank = SPARTA_MAX(n->in[0]->dims.rank, 1); /* a scalar is a line of one */
    SPARTA_TRY(sparta_ops_axis(g, n, sparta_attr_int(&n->attrs, "axis", -1), rank, &axis));
    return sparta_ops_unary(g, n, SPARTA_FLOATS);
}
