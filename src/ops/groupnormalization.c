/* GroupNormalization: type and dims of x (N, C, ...); scale and bias are (C), and attribute num_groups divides C. */
#include "ops/flow.h"
#include "ops/window.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const int64_t groups = sp_attr_int(&n->attrs, "num_groups", 0);
    int64_t channels;
    SP_TRY(sp_ops_rank(g, n, 0, 2, SPARTA_RANK));
    for (int i = 1; i < 3; i++) {
        SP_TRY(sp_ops_same_type(g, n, 0, i));
        SP_TRY(sp_ops_per_channel(g, n, i));
    }
    if (groups < 1 || (sp_expr_is_const(n->in[0]->dims.dim[1], &channels) && channels % groups))
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "num_groups is %lld, which does not divide %s channels",
                           (long long)groups, sp_ops_say(g, n->in[0]->dims.dim[1]));
    return sp_ops_same(g, n);
}

/* x and y: b (g c) ..., scale and bias: (g c). The statistics of a channel are those of its group, so whole groups go. */
static sparta_status axes(sp_axes *a)
{
    static const char why[] = "its statistics run over them";
    const sp_value *x = a->n->in[0];
    int g, c, l;
    const sp_expr *groups = sp_expr_const(a->g->arena, sp_attr_int(&a->n->attrs, "num_groups", 1)),
                  *each = groups ? sp_expr_div(a->g->arena, x->dims.dim[1], groups) : NULL;
    SP_NEED(a->g->cx, each);
    SP_TRY(sp_axes_label(a, groups, SP_EACH, NULL, &g));
    SP_TRY(sp_axes_label(a, each, SP_WHOLE, why, &c));
    a->label[g].run = a->label[g].size;
    a->how = SP_FLOW_FUNCTION;
    for (int i = 0; i < 4; i++) a->in[i].role = SP_ARG; /* the output, too: in and out are one array */
    for (int i = 1; i < 3; i++) a->in[i].axis[0] = sp_axis_pair(g, c);
    sp_flow_scaled(a);
    for (int k = 0; k < x->dims.rank; k++) {
        if (k != 1) SP_TRY(sp_axes_label(a, x->dims.dim[k], k ? SP_WHOLE : SP_EACH, k ? why : NULL, &l));
        a->in[0].axis[k] = a->out[0].axis[k] = k == 1 ? sp_axis_pair(g, c) : sp_axis_of(l);
    }
    return SPARTA_OK;
}

static sparta_status shrink(const sp_shrink *s)
{
    return sp_shrink_int(s, "num_groups", sp_shrink_count(s, 0, 0, s->axes->label[0].size));
}

SP_RULE(GroupNormalization, shape, SP_FLOATS, SP_EXACT, axes, shrink,
        "group by group, and whole groups go; the bias where the scale is zero, but the channels of a group "
        "all stay",
        "");
