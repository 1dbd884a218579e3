/* Conv: x (N, C, in...) and weights (M, C/group, kernel...) give (N, M, out...); the bias is (M). */
#include "ops/flow.h"
#include "ops/window.h"

sparta_status sparta_shape_Conv(sparta_graph *g, sparta_node *n)
{
    const sparta_dims *x = &n->in[0]->dims, *w = &n->in[1]->dims;
    sparta_window window;
    int64_t filters;
    SPARTA_TRY(sparta_ops_types(g, n, 0, SPARTA_FLOATS));
    for (int i = 1; i < 3; i++) SPARTA_TRY(sparta_ops_same_type(g, n, 0, i));
    SPARTA_TRY(sparta_ops_rank(g, n, 0, 3, 2 + SPARTA_WINDOW_DIMS));
    SPARTA_TRY(sparta_ops_window(g, n, w, &window));
    const sparta_expr *group = sparta_expr_const(g->arena, window.group),
                      *channels = group ? sparta_expr_mul(g->arena, w->dim[1], group) : NULL;
    SPARTA_NEED(g->cx, channels);
    SPARTA_TRY(
        sparta_ops_agree(g, n, "channels of the input, and of the weights times group", x->dim[1], channels));
    if (!sparta_expr_is_const(w->dim[0], &filters) || filters % window.group)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "%s filters do not make %lld groups",
                               sparta_ops_say(g, w->dim[0]), (long long)window.group);
    SPARTA_TRY(sparta_ops_filter_bias(g, n, w->dim[0]));
    sparta_dims dims = {.rank = 2, .dim = {x->dim[0], w->dim[0]}};
    SPARTA_TRY(sparta_ops_slide(g, n, &window, &dims));
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return SPARTA_OK;
}

/* x: b (g i) h, w: (g o) i t, bias: (g o), y: b (g o) p. A border of zeros is not the constant. */
static sparta_status axes(sparta_axes *a)
{
    const sparta_node *n = a->n;
    const sparta_dims *w = &n->in[1]->dims;
    sparta_window window;
    int g, i, o;
    SPARTA_TRY(sparta_ops_window(a->g, n, w, &window));
    const sparta_expr *group = sparta_expr_const(a->g->arena, window.group),
                      *each = group ? sparta_expr_div(a->g->arena, w->dim[0], group) : NULL;
    SPARTA_NEED(a->g->cx, each);
    SPARTA_TRY(sparta_axes_label(a, group, SPARTA_EACH, NULL, &g));
    SPARTA_TRY(sparta_axes_label(a, w->dim[1], SPARTA_SUM, NULL, &i));
    SPARTA_TRY(sparta_axes_label(a, each, SPARTA_EACH, NULL, &o));
    SPARTA_TRY(sparta_flow_window(a, &window, SPARTA_SUM));
    a->how = SPARTA_FLOW_PRODUCT;
    a->no_values = sparta_window_padded(&window);
    a->in[0].role = a->in[1].role = SPARTA_FACTOR;
    a->label[g].run = window.group;
    a->in[0].axis[1] = sparta_axis_pair(g, i);
    a->in[1].axis[0] = a->out[0].axis[1] = sparta_axis_pair(g, o);
    a->in[1].axis[1] = sparta_axis_of(i);
    for (int k = 2; k < w->rank; k++) SPARTA_TRY(sparta_flow_taps(a, k));
    if (sparta_ops_has(n, 2)) {
        a->in[2].role = SPARTA_TERM;
        a->in[2].axis[0] = sparta_axis_pair(g, o);
    }
    a->bias = 2;
    a->bias_axis = 1;
    return SPARTA_OK;
}

const sparta_flow sparta_flow_Conv = {SPARTA_EXACT,
                                      "zero where every product of its sum is; channels go, of grouped ones "
                                      "the same in each group or whole groups",
                                      "floats",
                                      "",
                                      axes,
                                      sparta_shrink_groups};
