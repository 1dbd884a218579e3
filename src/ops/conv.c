/* Conv: x (N, C, in...) and weights (M, C/group, kernel...) give (N, M, out...); the bias is (M). */
#include "ops/flow.h"
#include "ops/window.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_dims *x = &n->in[0]->dims, *w = &n->in[1]->dims;
    sp_window window;
    int64_t filters;
    for (int i = 1; i < 3; i++) SP_TRY(sp_ops_same_type(g, n, 0, i));
    SP_TRY(sp_ops_rank(g, n, 0, 3, 2 + SP_WINDOW_DIMS));
    SP_TRY(sp_ops_window(g, n, w, &window));
    const sp_expr *group = sp_expr_const(g->arena, window.group),
                  *channels = group ? sp_expr_mul(g->arena, w->dim[1], group) : NULL;
    SP_NEED(g->cx, channels);
    SP_TRY(sp_ops_agree(g, n, "channels of the input, and of the weights times group", x->dim[1], channels));
    if (!sp_expr_is_const(w->dim[0], &filters) || filters % window.group)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%s filters do not make %lld groups",
                           sp_ops_say(g, w->dim[0]), (long long)window.group);
    SP_TRY(sp_ops_filter_bias(g, n, w->dim[0]));
    sp_dims dims = {.rank = 2, .dim = {x->dim[0], w->dim[0]}};
    SP_TRY(sp_ops_slide(g, n, &window, &dims));
    sp_ops_set(n, 0, n->in[0]->dtype, &dims);
    return SPARTA_OK;
}

/* x: b (g i) h, w: (g o) i t, bias: (g o), y: b (g o) p. A border of zeros is not the constant. */
static sparta_status axes(sp_axes *a)
{
    const sp_node *n = a->n;
    const sp_dims *w = &n->in[1]->dims;
    sp_window window;
    int g, i, o;
    SP_TRY(sp_ops_window(a->g, n, w, &window));
    const sp_expr *group = sp_expr_const(a->g->arena, window.group),
                  *each = group ? sp_expr_div(a->g->arena, w->dim[0], group) : NULL;
    SP_NEED(a->g->cx, each);
    SP_TRY(sp_axes_label(a, group, SP_EACH, NULL, &g));
    SP_TRY(sp_axes_label(a, w->dim[1], SP_SUM, NULL, &i));
    SP_TRY(sp_axes_label(a, each, SP_EACH, NULL, &o));
    SP_TRY(sp_flow_window(a, &window, SP_SUM));
    a->how = SP_FLOW_PRODUCT;
    a->no_values = sp_window_padded(&window);
    a->in[0].role = a->in[1].role = SP_FACTOR;
    a->label[g].run = window.group;
    a->in[0].axis[1] = sp_axis_pair(g, i);
    a->in[1].axis[0] = a->out[0].axis[1] = sp_axis_pair(g, o);
    a->in[1].axis[1] = sp_axis_of(i);
    for (int k = 2; k < w->rank; k++) SP_TRY(sp_flow_taps(a, k));
    if (sp_ops_has(n, 2)) {
        a->in[2].role = SP_TERM;
        a->in[2].axis[0] = sp_axis_pair(g, o);
    }
    a->bias = 2;
    a->bias_axis = 1;
    return SPARTA_OK;
}

SP_RULE(Conv, shape, SP_FLOATS, SP_EXACT, axes, sp_shrink_groups,
        "zero where every product of its sum is; channels go, of grouped ones the same in each group or "
        "whole groups",
        "");
