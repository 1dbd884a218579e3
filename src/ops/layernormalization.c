/* LayerNormalization: type and dims of x; scale and bias repeat into them. The mean and the inverse deviation
 * have 1 in the dims from attribute axis on, and the type of attribute stash_type. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sparta_shape_LayerNormalization(sparta_graph *g, sparta_node *n)
{
    const sparta_value *x = n->in[0];
    sparta_dims rows = x->dims;
    sparta_dtype stash;
    int axis;
    if (!sparta_dtype_from_onnx(sparta_attr_int(&n->attrs, "stash_type", 1), &stash) ||
        !sparta_dtype_is_float(stash))
        return sparta_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "stash_type %lld is no float type",
                               (long long)sparta_attr_int(&n->attrs, "stash_type", 1));
    SPARTA_TRY(sparta_ops_axis(g, n, sparta_attr_int(&n->attrs, "axis", -1), x->dims.rank, &axis));
    for (int i = 1; i < 3; i++) {
        SPARTA_TRY(sparta_ops_same_type(g, n, 0, i));
        if (sparta_ops_has(n, i)) SPARTA_TRY(sparta_ops_broadcasts_to(g, n, &n->in[i]->dims, &x->dims));
    }
    for (int i = axis; i < rows.rank; i++) {
        rows.dim[i] = sparta_expr_const(g->arena, 1);
        SPARTA_NEED(g->cx, rows.dim[i]);
    }
    for (int i = 1; i < 3; i++) sparta_ops_set(n, i, stash, &rows);
    return sparta_ops_unary(g, n, SPARTA_FLOATS);
}

/* x, y: b s c, scale and bias: c; mean and inverse deviation: b s 1. */
static sparta_status axes(sparta_axes *a)
{
    int axis, rank = a->n->in[0]->dims.rank;
    bool whole[SPARTA_RANK] = {false};
    SPARTA_TRY(sparta_ops_axis(a->g, a->n, sparta_attr_int(&a->n->attrs, "axis", -1), rank, &axis));
    for (int i = axis; i < rank; i++) whole[i] = true;
    SPARTA_TRY(sparta_flow_along(
        a, whole, "its statistics run over them; prune inside layers, not what it normalises"));
    for (int o = 1; o < a->n->n_out; o++)
        for (int i = axis; i < rank; i++) a->out[o].axis[i] = (sparta_axis){.n = 0};
    sparta_flow_scaled(a);
    return SPARTA_OK;
}

const sparta_flow sparta_flow_LayerNormalization = {
    SPARTA_EXACT, "row by row; the bias where the scale is zero, but the normalised elements all stay",
    "floats",     "",
    axes,         NULL};
