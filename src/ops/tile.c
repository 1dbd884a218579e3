/* Tile: each dim times its entry in the second input. */
#include "ops/ints.h"

sparta_status sparta_shape_Tile(sparta_graph *g, sparta_node *n)
{
    const sparta_dims *x = &n->in[0]->dims;
    sparta_list repeats;
    sparta_dims dims = {.rank = 0};
    SPARTA_TRY(sparta_ops_list(g, n, 1, "the repeats", &repeats));
    if (repeats.n != x->rank)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "%d repeats for an input of rank %d", repeats.n,
                               x->rank);
    for (int i = 0; i < x->rank; i++)
        SPARTA_TRY(sparta_ops_append(g, n, &dims, sparta_expr_mul(g->arena, x->dim[i], repeats.x[i])));
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sparta_ops_move(g, n, 1);
}
