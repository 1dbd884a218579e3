/* Linear: (..., K) times a weight is (..., N). The weight is (N, K) when attribute transposed=1, else (K, N);
 * bias is (N), the residual repeats into the result. */
#include "ops/flow.h"
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

/* x: b k, w: k n or n k, bias: n, residual: b n; y: b n. An activation makes it a function of all of them. */
static sparta_status axes(sparta_axes *a)
{
    const sparta_node *n = a->n;
    int label[SPARTA_RANK], k, last = n->out[0]->dims.rank - 1;
    int transposed = sparta_attr_int(&n->attrs, "transposed", 0) != 0;
    bool plain = !*sparta_attr_string(&n->attrs, "activation", "");
    SPARTA_TRY(sparta_axes_labels(a, n->out[0], label));
    SPARTA_TRY(sparta_axes_label(a, n->in[0]->dims.dim[last], plain ? SPARTA_SUM : SPARTA_WHOLE,
                                 plain ? NULL : "the activation follows their sum", &k));
    a->how = plain ? SPARTA_FLOW_PRODUCT : SPARTA_FLOW_FUNCTION;
    a->in[0].role = a->in[1].role = plain ? SPARTA_FACTOR : SPARTA_ARG;
    a->out[0].role = SPARTA_ARG;
    for (int i = 0; i <= last; i++) a->in[0].axis[i] = a->out[0].axis[i] = sparta_axis_of(label[i]);
    a->in[0].axis[last] = a->in[1].axis[transposed] = sparta_axis_of(k);
    a->in[1].axis[!transposed] = sparta_axis_of(label[last]);
    for (int i = 2; i < 4; i++)
        sparta_axes_broadcast(a, i, plain ? SPARTA_TERM : SPARTA_ARG, last + 1, label);
    if (plain) a->bias_axis = last;
    if (plain && n->n_in > 2) a->bias = 2;
    return SPARTA_OK;
}

const sparta_flow sparta_flow_Linear = {
    SPARTA_CONSERVATIVE,
    "as MatMul, plus bias and residual; with an activation known where all inputs are",
    "floats",
    "",
    axes,
    NULL};
