/* MatMul: (..., M, K) times (..., K, N) is (..., M, N); the leading dims broadcast. A vector on the left is a
 * row, on the right a column, and its dim does not appear in the result. */
#include "ops/rule.h"

sparta_status sparta_shape_MatMul(sparta_graph *g, sparta_node *n)
{
    const sparta_dims *a = &n->in[0]->dims, *b = &n->in[1]->dims;
    sparta_dims left = {.rank = SPARTA_MAX(a->rank - 2, 0)}, right = {.rank = SPARTA_MAX(b->rank - 2, 0)},
                dims;
    SPARTA_TRY(sparta_ops_types(
        g, n, 0, SPARTA_FLOATS | SPARTA_INDICES | SPARTA_TYPE(SPARTA_U32) | SPARTA_TYPE(SPARTA_U64)));
    SPARTA_TRY(sparta_ops_same_type(g, n, 0, 1));
    SPARTA_TRY(sparta_ops_rank(g, n, 0, 1, SPARTA_RANK));
    SPARTA_TRY(sparta_ops_rank(g, n, 1, 1, SPARTA_RANK));
    SPARTA_TRY(sparta_ops_agree(g, n, "K of the left and of the right", a->dim[a->rank - 1],
                                b->dim[SPARTA_MAX(b->rank - 2, 0)]));
    for (int i = 0; i < left.rank; i++) left.dim[i] = a->dim[i];
    for (int i = 0; i < right.rank; i++) right.dim[i] = b->dim[i];
    SPARTA_TRY(sparta_ops_broadcast(g, n, &left, &right, &dims));
    if (a->rank > 1) SPARTA_TRY(sparta_ops_append(g, n, &dims, a->dim[a->rank - 2]));
    if (b->rank > 1) SPARTA_TRY(sparta_ops_append(g, n, &dims, b->dim[b->rank - 1]));
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return SPARTA_OK;
}
