/* InstanceNormalization: type and dims of x (N, C, ...); scale and bias are (C). */
#include "ops/flow.h"
#include "ops/window.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    SP_TRY(sp_ops_rank(g, n, 0, 3, SPARTA_RANK));
    for (int i = 1; i < 3; i++) {
        SP_TRY(sp_ops_same_type(g, n, 0, i));
        SP_TRY(sp_ops_per_channel(g, n, i));
    }
    return sp_ops_same(g, n);
}

static sparta_status axes(sp_axes *a)
{
    const sp_value *x = a->n->in[0];
    int label[SPARTA_RANK];
    SP_TRY(sp_axes_labels(a, x, label));
    a->how = SP_FLOW_FUNCTION;
    for (int i = 0; i < 4; i++) a->in[i].role = SP_ARG; /* the output, too: in and out are one array */
    sp_flow_scaled(a);
    for (int i = 1; i < 3; i++) a->in[i].axis[0] = sp_axis_of(label[1]);
    for (int k = 0; k < x->dims.rank; k++) {
        a->in[0].axis[k] = a->out[0].axis[k] = sp_axis_of(label[k]);
        if (k < 2) continue;
        a->label[label[k]].kind = SP_WHOLE;
        a->label[label[k]].why = "its statistics run over them";
    }
    return SPARTA_OK;
}

SP_RULE(InstanceNormalization, shape, SP_FLOATS, SP_EXACT, axes, NULL,
        "channel by channel; the bias where the scale is zero", "");
