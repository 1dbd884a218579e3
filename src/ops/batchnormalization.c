/* BatchNormalization: type and dims of x (N, C, ...); scale, bias, mean and variance are (C). Training is refused. */
#include "ops/flow.h"
#include "ops/window.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    if (sp_attr_int(&n->attrs, "training_mode", 0) || n->n_out > 1)
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED,
                           "it is in training mode (training_mode=1, or more than one output); export the "
                           "model for inference, with model.eval()");
    SP_TRY(sp_ops_rank(g, n, 0, 2, SPARTA_RANK));
    for (int i = 1; i < 5; i++) {
        SP_TRY(sp_ops_types(g, n, i, SP_FLOATS));
        SP_TRY(sp_ops_per_channel(g, n, i));
    }
    return sp_ops_same(g, n);
}

/* y = scale times what x became, plus bias: the bias alone where the scale is zero. */
static sparta_status axes(sp_axes *a)
{
    static const sp_role role[5] = {SP_ARG, SP_FACTOR, SP_TERM, SP_ARG, SP_ARG};
    const sp_value *x = a->n->in[0];
    int label[SPARTA_RANK];
    SP_TRY(sp_axes_labels(a, x, label));
    a->how = SP_FLOW_PRODUCT;
    a->out[0].role = SP_ARG;
    for (int i = 0; i < 5; i++) a->in[i].role = role[i];
    for (int i = 1; i < 5; i++) a->in[i].axis[0] = sp_axis_of(label[1]);
    for (int k = 0; k < x->dims.rank; k++) a->in[0].axis[k] = a->out[0].axis[k] = sp_axis_of(label[k]);
    return SPARTA_OK;
}

SP_RULE(BatchNormalization, shape, SP_FLOATS, SP_EXACT, axes, NULL,
        "element by element; the bias where the scale is zero", "training");
