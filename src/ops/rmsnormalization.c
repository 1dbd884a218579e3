/* RMSNormalization: the dims of x; the scale repeats into them and gives the type. */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sparta_shape_RMSNormalization(sparta_graph *g, sparta_node *n)
{
    const sparta_value *x = n->in[0], *scale = n->in[1];
    sparta_dtype stash;
    int axis;
    if (!sparta_dtype_from_onnx(sparta_attr_int(&n->attrs, "stash_type", 1), &stash) ||
        !sparta_dtype_is_float(stash))
        return sparta_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "stash_type %lld is no float type",
                               (long long)sparta_attr_int(&n->attrs, "stash_type", 1));
    for (int i = 0; i < 2; i++) SPARTA_TRY(sparta_ops_types(g, n, i, SPARTA_FLOATS));
    SPARTA_TRY(sparta_ops_axis(g, n, sparta_attr_int(&n->attrs, "axis", -1), x->dims.rank, &axis));
    SPARTA_TRY(sparta_ops_broadcasts_to(g, n, &scale->dims, &x->dims));
    sparta_ops_set(n, 0, scale->dtype, &x->dims);
    return SPARTA_OK;
}

static sparta_status axes(sparta_axes *a)
{
    int axis, rank = a->n->in[0]->dims.rank;
    bool whole[SPARTA_RANK] = {false};
    SPARTA_TRY(sparta_ops_axis(a->g, a->n, sparta_attr_int(&a->n->attrs, "axis", -1), rank, &axis));
    for (int i = axis; i < rank; i++) whole[i] = true;
    SPARTA_TRY(sparta_flow_along(
        a, whole, "its statistics run over them; prune inside layers, not what it normalises"));
    sparta_flow_scaled(a);
    return SPARTA_OK;
}

const sparta_flow sparta_flow_RMSNormalization = {
    SPARTA_EXACT, "row by row; zero where the scale is, but the normalised elements all stay",
    "floats",     "",
    axes,         NULL};
