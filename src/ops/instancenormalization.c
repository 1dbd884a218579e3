/* InstanceNormalization: type and dims of x (N, C, ...); scale and bias are (C). */
#include "ops/flow.h"
#include "ops/window.h"

sparta_status sparta_shape_InstanceNormalization(sparta_graph *g, sparta_node *n)
{
    SPARTA_TRY(sparta_ops_rank(g, n, 0, 3, SPARTA_RANK));
    for (int i = 1; i < 3; i++) {
        SPARTA_TRY(sparta_ops_same_type(g, n, 0, i));
        SPARTA_TRY(sparta_ops_per_channel(g, n, i));
    }
    return sparta_ops_unary(g, n, SPARTA_FLOATS);
}

static sparta_status axes(sparta_axes *a)
{
    const sparta_value *x = a->n->in[0];
    int label[SPARTA_RANK];
    SPARTA_TRY(sparta_axes_labels(a, x, label));
    a->how = SPARTA_FLOW_FUNCTION;
    for (int i = 0; i < 4; i++) a->in[i].role = SPARTA_ARG; /* the output, too: in and out are one array */
    sparta_flow_scaled(a);
    for (int i = 1; i < 3; i++) a->in[i].axis[0] = sparta_axis_of(label[1]);
    for (int k = 0; k < x->dims.rank; k++) {
        a->in[0].axis[k] = a->out[0].axis[k] = sparta_axis_of(label[k]);
        if (k < 2) continue;
        a->label[label[k]].kind = SPARTA_WHOLE;
        a->label[label[k]].why = "its statistics run over them";
    }
    return SPARTA_OK;
}

const sparta_flow sparta_flow_InstanceNormalization = {
    SPARTA_EXACT, "channel by channel; the bias where the scale is zero", "floats", "", axes, NULL};
