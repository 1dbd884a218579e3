/* RMSNormalization: the dims of x; the scale repeats into them and gives the type. */
#include "ops/flow.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_value *x = n->in[0], *scale = n->in[1];
    sparta_dtype stash;
    int axis;
    if (!sp_dtype_from_onnx(sp_attr_int(&n->attrs, "stash_type", 1), &stash) || !sp_dtype_is_float(stash))
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "stash_type %lld is no float type",
                           (long long)sp_attr_int(&n->attrs, "stash_type", 1));
    SP_TRY(sp_ops_types(g, n, 1, SP_FLOATS));
    SP_TRY(sp_ops_axis(g, n, sp_attr_int(&n->attrs, "axis", -1), x->dims.rank, &axis));
    SP_TRY(sp_ops_broadcasts_to(g, n, &scale->dims, &x->dims));
    sp_ops_set(n, 0, scale->dtype, &x->dims);
    return SPARTA_OK;
}

static sparta_status axes(sp_axes *a)
{
    int axis, rank = a->n->in[0]->dims.rank;
    bool whole[SPARTA_RANK] = {false};
    SP_TRY(sp_ops_axis(a->g, a->n, sp_attr_int(&a->n->attrs, "axis", -1), rank, &axis));
    for (int i = axis; i < rank; i++) whole[i] = true;
    SP_TRY(
        sp_flow_along(a, whole, "its statistics run over them; prune inside layers, not what it normalises"));
    sp_flow_scaled(a);
    return SPARTA_OK;
}

SP_RULE(RMSNormalization, shape, SP_FLOATS, SP_EXACT, axes, NULL,
        "row by row; zero where the scale is, but the normalised elements all stay", "");
