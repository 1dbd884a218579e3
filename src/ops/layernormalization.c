/* LayerNormalization: type and dims of x; scale and bias repeat into them. The mean and the inverse deviation
 * have 1 in the dims from attribute axis on, and the type of attribute stash_type. */
#include "ops/flow.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_value *x = n->in[0];
    sp_dims rows = x->dims;
    sparta_dtype stash;
    int axis;
    if (!sp_dtype_from_onnx(sp_attr_int(&n->attrs, "stash_type", 1), &stash) || !sp_dtype_is_float(stash))
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "stash_type %lld is no float type",
                           (long long)sp_attr_int(&n->attrs, "stash_type", 1));
    SP_TRY(sp_ops_axis(g, n, sp_attr_int(&n->attrs, "axis", -1), x->dims.rank, &axis));
    for (int i = 1; i < 3; i++) {
        SP_TRY(sp_ops_same_type(g, n, 0, i));
        if (sp_ops_has(n, i)) SP_TRY(sp_ops_broadcasts_to(g, n, &n->in[i]->dims, &x->dims));
    }
    for (int i = axis; i < rows.rank; i++) {
        rows.dim[i] = sp_expr_const(g->arena, 1);
        SP_NEED(g->cx, rows.dim[i]);
    }
    for (int i = 1; i < 3; i++) sp_ops_set(n, i, stash, &rows);
    return sp_ops_same(g, n);
}

/* x, y: b s c, scale and bias: c; mean and inverse deviation: b s 1. */
static sparta_status axes(sp_axes *a)
{
    int axis, rank = a->n->in[0]->dims.rank;
    bool whole[SPARTA_RANK] = {false};
    SP_TRY(sp_ops_axis(a->g, a->n, sp_attr_int(&a->n->attrs, "axis", -1), rank, &axis));
    for (int i = axis; i < rank; i++) whole[i] = true;
    SP_TRY(
        sp_flow_along(a, whole, "its statistics run over them; prune inside layers, not what it normalises"));
    for (int o = 1; o < a->n->n_out; o++)
        for (int i = axis; i < rank; i++) a->out[o].axis[i] = (sp_axis){.n = 0};
    sp_flow_scaled(a);
    return SPARTA_OK;
}

SP_RULE(LayerNormalization, shape, SP_FLOATS, SP_EXACT, axes, NULL,
        "row by row; the bias where the scale is zero, but the normalised elements all stay", "");
