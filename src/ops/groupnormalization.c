/* GroupNormalization: type and dims of x (N, C, ...); scale and bias are (C), and attribute num_groups divides C. */
#include "ops/flow.h"
#include "ops/window.h"

sparta_status sparta_shape_GroupNormalization(sparta_graph *g, sparta_node *n)
{
    const int64_t groups = sparta_attr_int(&n->attrs, "num_groups", 0);
    int64_t channels;
    SPARTA_TRY(sparta_ops_rank(g, n, 0, 2, SPARTA_RANK));
    for (int i = 1; i < 3; i++) {
        SPARTA_TRY(sparta_ops_same_type(g, n, 0, i));
        SPARTA_TRY(sparta_ops_per_channel(g, n, i));
    }
    if (groups < 1 || (sparta_expr_is_const(n->in[0]->dims.dim[1], &channels) && channels % groups))
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "num_groups is %lld, which does not divide %s channels",
                               (long long)groups, sparta_ops_say(g, n->in[0]->dims.dim[1]));
    return sparta_ops_unary(g, n, SPARTA_FLOATS);
}

/* x and y: b (g c) ..., scale and bias: (g c). The statistics of a channel are those of its group, so whole groups go. */
static sparta_status axes(sparta_axes *a)
{
    static const char why[] = "its statistics run over them";
    const sparta_value *x = a->n->in[0];
    int g, c, l;
    const sparta_expr *groups =
                          sparta_expr_const(a->g->arena, sparta_attr_int(&a->n->attrs, "num_groups", 1)),
                      *each = groups ? sparta_expr_div(a->g->arena, x->dims.dim[1], groups) : NULL;
    SPARTA_NEED(a->g->cx, each);
    SPARTA_TRY(sparta_axes_label(a, groups, SPARTA_EACH, NULL, &g));
    SPARTA_TRY(sparta_axes_label(a, each, SPARTA_WHOLE, why, &c));
    a->label[g].run = a->label[g].size;
    a->how = SPARTA_FLOW_FUNCTION;
    for (int i = 0; i < 4; i++) a->in[i].role = SPARTA_ARG; /* the output, too: in and out are one array */
    for (int i = 1; i < 3; i++) a->in[i].axis[0] = sparta_axis_pair(g, c);
    sparta_flow_scaled(a);
    for (int k = 0; k < x->dims.rank; k++) {
        if (k != 1)
            SPARTA_TRY(
                sparta_axes_label(a, x->dims.dim[k], k ? SPARTA_WHOLE : SPARTA_EACH, k ? why : NULL, &l));
        a->in[0].axis[k] = a->out[0].axis[k] = k == 1 ? sparta_axis_pair(g, c) : sparta_axis_of(l);
    }
    return SPARTA_OK;
}

static sparta_status shrink(const sparta_shrink *s)
{
    return sparta_shrink_int(s, "num_groups", sparta_shrink_count(s, 0, 0, s->axes->label[0].size));
}

const sparta_flow sparta_flow_GroupNormalization = {SPARTA_EXACT,
                                                    "group by group, and whole groups go; the bias where the "
                                                    "scale is zero, but the channels of a group all stay",
                                                    "floats",
                                                    "",
                                                    axes,
                                                    shrink};
