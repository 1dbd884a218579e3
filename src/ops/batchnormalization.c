/* BatchNormalization: type and dims of x (N, C, ...); scale, bias, mean and variance are (C). Training is refused. */
#include "ops/flow.h"
#include "ops/window.h"

sparta_status sparta_shape_BatchNormalization(sparta_graph *g, sparta_node *n)
{
    if (sparta_attr_int(&n->attrs, "training_mode", 0) || n->n_out > 1)
        return sparta_ops_fail(
            g, n, SPARTA_E_UNSUPPORTED,
            "it is in training mode (training_mode=1, or more than one output); export the "
            "model for inference, with model.eval()");
    SPARTA_TRY(sparta_ops_rank(g, n, 0, 2, SPARTA_RANK));
    for (int i = 1; i < 5; i++) {
        SPARTA_TRY(sparta_ops_types(g, n, i, SPARTA_FLOATS));
        SPARTA_TRY(sparta_ops_per_channel(g, n, i));
    }
    return sparta_ops_unary(g, n, SPARTA_FLOATS);
}

/* y = scale times what x became, plus bias: the bias alone where the scale is zero. */
static sparta_status axes(sparta_axes *a)
{
    static const sparta_role role[5] = {SPARTA_ARG, SPARTA_FACTOR, SPARTA_TERM, SPARTA_ARG, SPARTA_ARG};
    const sparta_value *x = a->n->in[0];
    int label[SPARTA_RANK];
    SPARTA_TRY(sparta_axes_labels(a, x, label));
    a->how = SPARTA_FLOW_PRODUCT;
    a->out[0].role = SPARTA_ARG;
    for (int i = 0; i < 5; i++) a->in[i].role = role[i];
    for (int i = 1; i < 5; i++) a->in[i].axis[0] = sparta_axis_of(label[1]);
    for (int k = 0; k < x->dims.rank; k++) a->in[0].axis[k] = a->out[0].axis[k] = sparta_axis_of(label[k]);
    return SPARTA_OK;
}

const sparta_flow sparta_flow_BatchNormalization = {
    SPARTA_EXACT, "element by element; the bias where the scale is zero", "floats", "training", axes, NULL};
