/* GatherElements: the dims of the indices, which have the rank of x. */
#include "ops/ints.h"

sparta_status sparta_shape_GatherElements(sparta_graph *g, sparta_node *n)
{
    int axis;
    SPARTA_TRY(sparta_ops_types(g, n, 1, SPARTA_INDICES));
    SPARTA_TRY(sparta_ops_axis(g, n, sparta_attr_int(&n->attrs, "axis", 0), n->in[0]->dims.rank, &axis));
    SPARTA_TRY(sparta_ops_rank(g, n, 1, n->in[0]->dims.rank, n->in[0]->dims.rank));
    sparta_ops_set(n, 0, n->in[0]->dtype, &n->in[1]->dims);
    return sparta_ops_move(g, n, 1);
}
