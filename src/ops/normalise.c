/* The normalisations: type and dims of x.
 *
 *     Layer, RMS                  over the dims from attribute axis on; scale and bias repeat into x
 *     Batch, Instance, Group      x is (N, C, ...); scale, bias, mean and variance are (C)
 */
#include "ops/flow.h"

static const char statistics[] = "its statistics run over them";

/* A FUNCTION that normalises input 0 and then multiplies by a scale, input 1, and adds a bias, input 2 if it is there: a PRODUCT,
 * the bias where the scale is 0. It is not with further outputs, which know no scale, nor with an attribute epsilon that is not
 * positive: from x that are all alike NaN comes then. */
static void then_scaled(sp_axes *a)
{
    static const sp_role role[3] = {SP_ARG, SP_FACTOR, SP_TERM};
    const float epsilon = sp_attr_float(&a->n->attrs, "epsilon", 1e-5f);
    for (int i = 1; i < a->n->n_in; i++) a->in[i].after = true;
    if (a->n->n_out > 1 || !(epsilon > 0) || !sp_ops_has(a->n, 1)) return;
    a->how = SP_FLOW_PRODUCT;
    for (int i = 0; i < a->n->n_in && i < 3; i++)
        if (a->n->in[i]) a->in[i].role = role[i];
}

/* ------------------------------------------------------------------ over the last dims */
/* The first of them, and the type of the statistics. */
static sparta_status read_rows(sp_graph *g, const sp_node *n, int *axis, sparta_dtype *stash)
{
    const int64_t code = sp_attr_int(&n->attrs, "stash_type", 1);
    if (!sp_dtype_from_onnx(code, stash) || !sp_dtype_is_float(*stash))
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "stash_type %lld is no float type", (long long)code);
    return sp_ops_axis(g, n, sp_attr_int(&n->attrs, "axis", -1), n->in[0]->dims.rank, axis);
}

/* The mean and the inverse deviation have 1 in the dims from the axis on. */
static sparta_status layer_shape(sp_graph *g, sp_node *n)
{
    sp_dims rows = n->in[0]->dims;
    sparta_dtype stash;
    int axis;
    SP_TRY(read_rows(g, n, &axis, &stash));
    for (int i = 1; i < 3; i++) {
        SP_TRY(sp_ops_same_type(g, n, 0, i));
        if (sp_ops_has(n, i)) SP_TRY(sp_ops_broadcasts_to(g, n, &n->in[i]->dims, &n->in[0]->dims));
    }
    for (int i = axis; i < rows.rank; i++) {
        rows.dim[i] = sp_expr_const(g->arena, 1);
        SP_NEED(g->cx, rows.dim[i]);
    }
    for (int i = 1; i < 3; i++) sp_ops_set(n, i, stash, &rows);
    return sp_ops_same(g, n);
}

/* The scale gives the type. */
static sparta_status rms_shape(sp_graph *g, sp_node *n)
{
    sparta_dtype stash;
    int axis;
    SP_TRY(read_rows(g, n, &axis, &stash));
    SP_TRY(sp_ops_types(g, n, 1, SP_FLOATS));
    SP_TRY(sp_ops_broadcasts_to(g, n, &n->in[1]->dims, &n->in[0]->dims));
    return sp_ops_done(n, n->in[1]->dtype, &n->in[0]->dims);
}

/* x, y: b s c, scale and bias: c; mean and inverse deviation: b s 1. */
static sparta_status row_axes(sp_axes *a)
{
    int axis, rank = a->n->in[0]->dims.rank;
    sparta_dtype stash;
    bool whole[SPARTA_RANK] = {false};
    SP_TRY(read_rows(a->g, a->n, &axis, &stash));
    for (int i = axis; i < rank; i++) whole[i] = true;
    SP_TRY(
        sp_flow_along(a, whole, "its statistics run over them; prune inside layers, not what it normalises"));
    for (int o = 1; o < a->n->n_out; o++)
        for (int i = axis; i < rank; i++) a->out[o].axis[i] = (sp_axis){.n = 0};
    then_scaled(a);
    return SPARTA_OK;
}

SP_RULE(LayerNormalization, layer_shape, SP_FLOATS, SP_EXACT, row_axes, NULL,
        "row by row; the bias where the scale is zero, but the normalised elements all stay", "");
SP_RULE(RMSNormalization, rms_shape, SP_FLOATS, SP_EXACT, row_axes, NULL,
        "row by row; zero where the scale is, but the normalised elements all stay", "");

/* ------------------------------------------------------------------ by channels */
/* x has at least `rank` dims, and the other inputs an element for each channel, of its type or of `types`. */
static sparta_status by_channel(sp_graph *g, sp_node *n, int rank, unsigned types)
{
    SP_TRY(sp_ops_rank(g, n, 0, rank, SPARTA_RANK));
    for (int i = 1; i < n->n_in; i++) {
        SP_TRY(types ? sp_ops_types(g, n, i, types) : sp_ops_same_type(g, n, 0, i));
        SP_TRY(sp_ops_rank(g, n, i, 1, 1));
        SP_TRY(sp_ops_agree(g, n, "the channels of the input and of scale, bias, mean or variance",
                            n->in[0]->dims.dim[1], n->in[i]->dims.dim[0]));
    }
    return sp_ops_same(g, n);
}

/* x and y: b `channel` ..., the others: `channel`. What is behind the channels has this kind and why. */
static sparta_status channel_axes(sp_axes *a, sp_axis channel, sp_label_kind kind, const char *why)
{
    const sp_dims *x = &a->n->in[0]->dims;
    a->how = SP_FLOW_FUNCTION;
    for (int i = 0; i < sp_node_slots(a->n); i++) { /* in and out are one array */
        a->in[i].role = SP_ARG;
        a->in[i].axis[0] = channel;
    }
    for (int k = 0; k < x->rank; k++) {
        sp_axis one = channel;
        if (k != 1) {
            int l;
            SP_TRY(sp_axes_label(a, x->dim[k], k ? kind : SP_EACH, k ? why : NULL, &l));
            one = sp_axis_of(l);
        }
        a->in[0].axis[k] = a->out[0].axis[k] = one;
    }
    return SPARTA_OK;
}

/* A label for all channels. */
static sparta_status each_channel(sp_axes *a, sp_label_kind kind, const char *why)
{
    int c;
    SP_TRY(sp_axes_label(a, a->n->in[0]->dims.dim[1], SP_EACH, NULL, &c));
    return channel_axes(a, sp_axis_of(c), kind, why);
}

static sparta_status batch_shape(sp_graph *g, sp_node *n)
{
    if (sp_attr_int(&n->attrs, "training_mode", 0) || n->n_out > 1)
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED,
                           "it is in training mode (training_mode=1, or more than one output); export the "
                           "model for inference, with model.eval()");
    return by_channel(g, n, 2, SP_FLOATS);
}

/* y = scale times what x became, plus bias: the bias alone where the scale is zero. */
static sparta_status batch_axes(sp_axes *a)
{
    SP_TRY(each_channel(a, SP_EACH, NULL));
    a->how = SP_FLOW_PRODUCT;
    a->in[1].role = SP_FACTOR;
    a->in[2].role = SP_TERM;
    return SPARTA_OK;
}

SP_RULE(BatchNormalization, batch_shape, SP_FLOATS, SP_EXACT, batch_axes, NULL,
        "element by element; the bias where the scale is zero", "training");

static sparta_status instance_shape(sp_graph *g, sp_node *n)
{
    return by_channel(g, n, 3, 0);
}

static sparta_status instance_axes(sp_axes *a)
{
    SP_TRY(each_channel(a, SP_WHOLE, statistics));
    then_scaled(a);
    return SPARTA_OK;
}

SP_RULE(InstanceNormalization, instance_shape, SP_FLOATS, SP_EXACT, instance_axes, NULL,
        "channel by channel; the bias where the scale is zero", "");

static sparta_status group_shape(sp_graph *g, sp_node *n)
{
    const int64_t groups = sp_attr_int(&n->attrs, "num_groups", 0);
    int64_t channels;
    SP_TRY(by_channel(g, n, 2, 0));
    if (groups < 1 || (sp_expr_is_const(n->in[0]->dims.dim[1], &channels) && channels % groups))
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "num_groups is %lld, which does not divide %s channels",
                           (long long)groups, sp_ops_say(g, n->in[0]->dims.dim[1]));
    return SPARTA_OK;
}

/* x and y: b (g c) ..., scale and bias: (g c). The statistics of a channel are those of its group, so whole groups go. */
static sparta_status group_axes(sp_axes *a)
{
    int g, c;
    const sp_expr *groups = sp_expr_const(a->g->arena, sp_attr_int(&a->n->attrs, "num_groups", 1)),
                  *each = sp_expr_div(a->g->arena, a->n->in[0]->dims.dim[1], groups);
    SP_NEED(a->g->cx, each);
    SP_TRY(sp_axes_label(a, groups, SP_EACH, NULL, &g));
    SP_TRY(sp_axes_label(a, each, SP_WHOLE, statistics, &c));
    a->label[g].run = a->label[g].size;
    SP_TRY(channel_axes(a, sp_axis_pair(g, c), SP_WHOLE, statistics));
    then_scaled(a);
    return SPARTA_OK;
}

static sparta_status group_shrink(const sp_shrink *s)
{
    return sp_shrink_int(s, "num_groups", sp_shrink_count(s, 0, 0, s->axes->label[0].size));
}

SP_RULE(GroupNormalization, group_shape, SP_FLOATS, SP_EXACT, group_axes, group_shrink,
        "group by group, and whole groups go; the bias where the scale is zero, but the channels of a group "
        "all stay",
        "");
