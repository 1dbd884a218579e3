/* CastLike: the dims of the first input in the type of the second. */
#include "ops/cast.h"

sparta_status sparta_shape_CastLike(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_cast(g, n, n->in[1]->dtype);
}
