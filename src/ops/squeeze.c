/* Squeeze: without the dims that the second input names, which must be 1; without it, without every dim that
 * is 1. */
#include "ops/ints.h"

sparta_status sparta_shape_Squeeze(sparta_graph *g, sparta_node *n)
{
    const sparta_dims *x = &n->in[0]->dims;
    sparta_dims dims = {.rank = 0};
    bool set[SPARTA_RANK];
    int count;
    SPARTA_TRY(sparta_ops_axes(g, n, 1, x->rank, set, &count));
    for (int i = 0; i < x->rank; i++) {
        bool one = sparta_expr_is(x->dim[i], 1);
        if (count >= 0 && set[i] && !one)
            return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "dim %d of %s is to go and is not 1", i,
                                   sparta_ops_say_dims(g, x));
        if (count >= 0 ? !set[i] : !one) SPARTA_TRY(sparta_ops_append(g, n, &dims, x->dim[i]));
    }
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sparta_ops_move(g, n, 1);
}
