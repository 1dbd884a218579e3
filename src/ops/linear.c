/* Linear: (..., K) times a weight is (..., N). The weight is (N, K) when attribute transposed=1, else (K, N);
 * bias is (N), the residual repeats into the result. */
#include "ops/rule.h"
#include "builtin/activation.h"

sparta_status sparta_shape_Linear(sparta_graph *g, sparta_node *n)
{
    const sparta_dims *x = &n->in[0]->dims, *w = &n->in[1]->dims;
    int transposed = sparta_attr_int(&n->attrs, "transposed", 0) != 0;
    const char *activation = sparta_attr_string(&n->attrs, "activation", "");
    if (!sparta_activation_find(activation))
        return sparta_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "activation \"%.40s\" is not known", activation);
    SPARTA_TRY(sparta_ops_types(g, n, 0, SPARTA_FLOATS));
    for (int i = 1; i < 4; i++) SPARTA_TRY(sparta_ops_same_type(g, n, 0, i));
    SPARTA_TRY(sparta_ops_rank(g, n, 0, 1, SPARTA_RANK));
    SPARTA_TRY(sparta_ops_rank(g, n, 1, 2, 2));
    SPARTA_TRY(sparta_ops_rank(g, n, 2, 1, 1));
    SPARTA_TRY(
        sparta_ops_agree(g, n, "K of the input and of the weight", x->dim[x->rank - 1], w->dim[transposed]));
    sparta_dims dims = *x;
    dims.dim[x->rank - 1] = w->dim[!transposed];
    if (sparta_ops_has(n, 2))
        SPARTA_TRY(sparta_ops_agree(g, n, "N of the weight and of the bias", w->dim[!transposed],
                                    n->in[2]->dims.dim[0]));
    if (sparta_ops_has(n, 3)) SPARTA_TRY(sparta_ops_broadcasts_to(g, n, &n->in[3]->dims, &dims));
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return SPARTA_OK;
}
