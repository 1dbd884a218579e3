/* Gemm: (M, K) times (K, N) is (M, N), either input transposed on request; C repeats into (M, N). */
#include "ops/rule.h"

sparta_status sparta_shape_Gemm(sparta_graph *g, sparta_node *n)
{
    const sparta_dims *a = &n->in[0]->dims, *b = &n->in[1]->dims;
    int ta = sparta_attr_int(&n->attrs, "transA", 0) != 0, tb = sparta_attr_int(&n->attrs, "transB", 0) != 0;
    SPARTA_TRY(sparta_ops_types(
        g, n, 0, SPARTA_FLOATS | SPARTA_INDICES | SPARTA_TYPE(SPARTA_U32) | SPARTA_TYPE(SPARTA_U64)));
    for (int i = 1; i < 3; i++) SPARTA_TRY(sparta_ops_same_type(g, n, 0, i));
    for (int i = 0; i < 2; i++) SPARTA_TRY(sparta_ops_rank(g, n, i, 2, 2));
    SPARTA_TRY(sparta_ops_agree(g, n, "K of the left and of the right", a->dim[!ta], b->dim[tb]));
    sparta_dims dims = {.rank = 2, .dim = {a->dim[ta], b->dim[!tb]}};
    if (sparta_ops_has(n, 2)) SPARTA_TRY(sparta_ops_broadcasts_to(g, n, &n->in[2]->dims, &dims));
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return SPARTA_OK;
}
