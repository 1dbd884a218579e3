/* Gemm: (M, K) times (K, N) is (M, N), either input transposed on request; C repeats into (M, N). */
#include "ops/flow.h"
#include <math.h>

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_dims *a = &n->in[0]->dims, *b = &n->in[1]->dims;
    int ta = sp_attr_int(&n->attrs, "transA", 0) != 0, tb = sp_attr_int(&n->attrs, "transB", 0) != 0;
    for (int i = 1; i < 3; i++) SP_TRY(sp_ops_same_type(g, n, 0, i));
    for (int i = 0; i < 2; i++) SP_TRY(sp_ops_rank(g, n, i, 2, 2));
    SP_TRY(sp_ops_agree(g, n, "K of the left and of the right", a->dim[!ta], b->dim[tb]));
    sp_dims dims = {.rank = 2, .dim = {a->dim[ta], b->dim[!tb]}};
    if (sp_ops_has(n, 2)) SP_TRY(sp_ops_broadcasts_to(g, n, &n->in[2]->dims, &dims));
    return sp_ops_done(n, n->in[0]->dtype, &dims);
}

/* a: m k, b: k n (either the other way round), c: m n; y: m n. A scale that is not finite makes no zero of a zero. */
static sparta_status axes(sp_axes *a)
{
    const sp_attrs *attrs = &a->n->attrs;
    int label[2], k, ta = sp_attr_int(attrs, "transA", 0) != 0, tb = sp_attr_int(attrs, "transB", 0) != 0;
    bool plain = isfinite(sp_attr_float(attrs, "alpha", 1)) && isfinite(sp_attr_float(attrs, "beta", 1));
    SP_TRY(sp_axes_labels(a, a->n->out[0], label));
    SP_TRY(sp_axes_label(a, a->n->in[0]->dims.dim[!ta], plain ? SP_SUM : SP_WHOLE, NULL, &k));
    a->how = plain ? SP_FLOW_PRODUCT : SP_FLOW_FUNCTION;
    a->in[0].role = a->in[1].role = plain ? SP_FACTOR : SP_ARG;
    a->in[0].axis[ta] = sp_axis_of(label[0]);
    a->in[0].axis[!ta] = a->in[1].axis[tb] = sp_axis_of(k);
    a->in[1].axis[!tb] = sp_axis_of(label[1]);
    sp_axes_broadcast(a, 2, plain ? SP_TERM : SP_ARG, 2, label);
    a->out[0].role = SP_ARG;
    for (int i = 0; i < 2; i++) a->out[0].axis[i] = sp_axis_of(label[i]);
    if (plain) a->bias_axis = 1;
    if (plain && sp_attr_float(attrs, "beta", 1) == 1) a->bias = 2;
    return SPARTA_OK;
}

SP_RULE(Gemm, shape, SP_WIDE, SP_EXACT, axes, NULL, "as MatMul, plus C", "");
