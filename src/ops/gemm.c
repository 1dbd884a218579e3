/* Gemm: (M, K) times (K, N) is (M, N), either input transposed on request; C repeats into (M, N). */
#include "ops/flow.h"
#include "ops/rule.h"
#include <math.h>

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

/* a: m k, b: k n (either the other way round), c: m n; y: m n. A scale that is not finite makes no zero of a zero. */
static sparta_status axes(sparta_axes *a)
{
    const sparta_attrs *attrs = &a->n->attrs;
    int label[2], k, ta = sparta_attr_int(attrs, "transA", 0) != 0,
                     tb = sparta_attr_int(attrs, "transB", 0) != 0;
    bool plain =
        isfinite(sparta_attr_float(attrs, "alpha", 1)) && isfinite(sparta_attr_float(attrs, "beta", 1));
    SPARTA_TRY(sparta_axes_labels(a, a->n->out[0], label));
    SPARTA_TRY(sparta_axes_label(a, a->n->in[0]->dims.dim[!ta], plain ? SPARTA_SUM : SPARTA_WHOLE, NULL, &k));
    a->how = plain ? SPARTA_FLOW_PRODUCT : SPARTA_FLOW_FUNCTION;
    a->in[0].role = a->in[1].role = plain ? SPARTA_FACTOR : SPARTA_ARG;
    a->in[0].axis[ta] = sparta_axis_of(label[0]);
    a->in[0].axis[!ta] = a->in[1].axis[tb] = sparta_axis_of(k);
    a->in[1].axis[!tb] = sparta_axis_of(label[1]);
    sparta_axes_broadcast(a, 2, plain ? SPARTA_TERM : SPARTA_ARG, 2, label);
    a->out[0].role = SPARTA_ARG;
    for (int i = 0; i < 2; i++) a->out[0].axis[i] = sparta_axis_of(label[i]);
    if (plain) a->bias_axis = 1;
    if (plain && sparta_attr_float(attrs, "beta", 1) == 1) a->bias = 2;
    return SPARTA_OK;
}

const sparta_flow sparta_flow_Gemm = {
    SPARTA_EXACT, "as MatMul, plus C", "floats and 32/64-bit integers", "", axes, NULL};
