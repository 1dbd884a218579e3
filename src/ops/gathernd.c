/* GatherND: the dims of indices but the last, then the dims of x that its tuples (and the batch) leave free.
 */
#include "ops/ints.h"

sparta_status sparta_shape_GatherND(sparta_graph *g, sparta_node *n)
{
    const sparta_dims *x = &n->in[0]->dims, *indices = &n->in[1]->dims;
    int64_t batch = sparta_attr_int(&n->attrs, "batch_dims", 0), tuple;
    sparta_dims dims = {.rank = 0};
    SPARTA_TRY(sparta_ops_types(g, n, 1, SPARTA_TYPE(SPARTA_I64)));
    SPARTA_TRY(sparta_ops_rank(g, n, 0, 1, SPARTA_RANK));
    SPARTA_TRY(sparta_ops_rank(g, n, 1, 1, SPARTA_RANK));
    if (batch < 0 || batch >= SPARTA_MIN(x->rank, indices->rank))
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "batch_dims is %lld for ranks %d and %d",
                               (long long)batch, x->rank, indices->rank);
    if (!sparta_expr_is_const(indices->dim[indices->rank - 1], &tuple) || tuple < 1 ||
        tuple > x->rank - batch)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "the last dim of indices %s must be a number in [1, %d]",
                               sparta_ops_say_dims(g, indices), (int)(x->rank - batch));
    for (int i = 0; i < batch; i++)
        SPARTA_TRY(sparta_ops_agree(g, n, "a batch dim", x->dim[i], indices->dim[i]));
    for (int i = 0; i < indices->rank - 1; i++) SPARTA_TRY(sparta_ops_append(g, n, &dims, indices->dim[i]));
    for (int i = (int)(batch + tuple); i < x->rank; i++)
        SPARTA_TRY(sparta_ops_append(g, n, &dims, x->dim[i]));
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sparta_ops_move(g, n, 1);
}
