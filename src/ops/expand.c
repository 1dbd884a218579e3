/* Expand: the dims of x broadcast against those that the second input holds. */
#include "ops/ints.h"

sparta_status sparta_shape_Expand(sparta_graph *g, sparta_node *n)
{
    sparta_list shape;
    sparta_dims dims = {.rank = 0};
    SPARTA_TRY(sparta_ops_list(g, n, 1, "the shape", &shape));
    for (int i = 0; i < shape.n; i++) SPARTA_TRY(sparta_ops_append(g, n, &dims, shape.x[i]));
    SPARTA_TRY(sparta_ops_broadcast(g, n, &n->in[0]->dims, &dims, &dims));
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sparta_ops_move(g, n, 1);
}
