/* Linear: (..., K) times a weight is (..., N). The weight is (N, K) when attribute transposed=1, else (K, N);
 * bias is (N), the residual repeats into the result. */
#include "ops/flow.h"
#include "builtin/epilogue.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_dims *x = &n->in[0]->dims, *w = &n->in[1]->dims;
    int transposed = sp_attr_int(&n->attrs, "transposed", 0) != 0;
    sp_words words;
    const char *problem = sp_words_of(&n->attrs, sp_ops_has(n, 2), sp_ops_has(n, 3), &words);
    if (problem)
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "%s: \"%.80s\"", problem,
                           sp_attr_string(&n->attrs, "epilogue", ""));
    for (int i = 1; i < 4; i++) SP_TRY(sp_ops_same_type(g, n, 0, i));
    SP_TRY(sp_ops_rank(g, n, 0, 1, SPARTA_RANK));
    SP_TRY(sp_ops_rank(g, n, 1, 2, 2));
    SP_TRY(sp_ops_rank(g, n, 2, 1, 1));
    SP_TRY(sp_ops_agree(g, n, "K of the input and of the weight", x->dim[x->rank - 1], w->dim[transposed]));
    sp_dims dims = *x;
    dims.dim[x->rank - 1] = w->dim[!transposed];
    if (sp_ops_has(n, 2))
        SP_TRY(sp_ops_agree(g, n, "N of the weight and of the bias", w->dim[!transposed],
                            n->in[2]->dims.dim[0]));
    if (sp_ops_has(n, 3)) SP_TRY(sp_ops_broadcasts_to(g, n, &n->in[3]->dims, &dims));
    return sp_ops_done(n, n->in[0]->dtype, &dims);
}

/* x: b k, w: k n or n k, bias: n, residual: b n; y: b n. A function in its epilogue makes it one of all of them. */
static sparta_status axes(sp_axes *a)
{
    const sp_node *n = a->n;
    int label[SPARTA_RANK], k, last = n->out[0]->dims.rank - 1;
    int transposed = sp_attr_int(&n->attrs, "transposed", 0) != 0;
    sp_words words;
    bool plain =
        !sp_words_of(&n->attrs, sp_ops_has(n, 2), sp_ops_has(n, 3), &words) && sp_words_only_add(&words);
    SP_TRY(sp_axes_labels(a, n->out[0], label));
    SP_TRY(sp_axes_label(a, n->in[0]->dims.dim[last], plain ? SP_SUM : SP_WHOLE,
                         plain ? NULL : "a function follows their sum", &k));
    a->how = plain ? SP_FLOW_PRODUCT : SP_FLOW_FUNCTION;
    a->in[0].role = a->in[1].role = plain ? SP_FACTOR : SP_ARG;
    a->out[0].role = SP_ARG;
    for (int i = 0; i <= last; i++) a->in[0].axis[i] = a->out[0].axis[i] = sp_axis_of(label[i]);
    a->in[0].axis[last] = a->in[1].axis[transposed] = sp_axis_of(k);
    a->in[1].axis[!transposed] = sp_axis_of(label[last]);
    for (int i = 2; i < 4; i++) sp_axes_broadcast(a, i, plain ? SP_TERM : SP_ARG, last + 1, label);
    if (plain) a->bias_axis = last;
    if (plain && sp_ops_has(n, 2)) a->bias = 2;
    return SPARTA_OK;
}

SP_RULE(Linear, shape, SP_FLOATS, SP_CONSERVATIVE, axes, NULL,
        "as MatMul, plus bias and residual; with a function in its epilogue known where all inputs are", "");
