/* ConvTranspose: x (N, C, in...) and weights (C, M/group, kernel...) give (N, M, out...); the bias is (M).
 *
 *     out = stride (in - 1) + output_padding + effective kernel - before - after
 *     out = attribute output_shape where it is given, stride in for SAME
 */
#include "ops/flow.h"
#include "ops/window.h"

/* One spatial dim; NULL after a message. */
static const sparta_expr *spread(const sparta_graph *g, const sparta_window *w, int i, const sparta_expr *in)
{
    const sparta_expr *stride = sparta_expr_const(g->arena, w->stride[i]),
                      *out = stride ? sparta_expr_mul(g->arena, in, stride) : NULL;
    if (!out || w->padding == SPARTA_PAD_UPPER || w->padding == SPARTA_PAD_LOWER) return out;
    const sparta_expr *rest = sparta_expr_const(g->arena, w->extra[i] + sparta_window_effective(w, i) -
                                                              w->stride[i] - w->before[i] - w->after[i]);
    return rest ? sparta_expr_add(g->arena, out, rest) : NULL;
}

/* The result may not be larger than what the kernels reach, by a stride or more: runtimes disagree on what would be there. */
static sparta_status check_reach(const sparta_graph *g, const sparta_node *n, const sparta_window *w, int i,
                                 const sparta_expr *in, const sparta_expr *out)
{
    sparta_window whole = *w;
    whole.padding = SPARTA_PAD_NONE;
    whole.before[i] = whole.after[i] = 0;
    const sparta_expr *reach = spread(g, &whole, i, in),
                      *beyond = reach ? sparta_expr_sub(g->arena, out, reach) : NULL;
    int64_t by;
    SPARTA_NEED(g->cx, beyond);
    const bool same = w->padding == SPARTA_PAD_UPPER || w->padding == SPARTA_PAD_LOWER;
    if (!sparta_expr_is_const(beyond, &by) || by < (same ? 1 : w->stride[i])) return SPARTA_OK;
    return sparta_ops_fail(g, n, SPARTA_E_UNSUPPORTED,
                           "the result would be %s in a spatial dim where the kernels reach only %s; use "
                           "output_padding, or another output_shape",
                           sparta_ops_say(g, out), sparta_ops_say(g, reach));
}

static sparta_status add_spatial(sparta_graph *g, const sparta_node *n, const sparta_window *w,
                                 sparta_dims *dims)
{
    const sparta_attr *shape = sparta_attr_find(&n->attrs, "output_shape");
    const bool given = shape && shape->n > 0;
    if (given && shape->n != w->n)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "output_shape has %d numbers; %d are needed", shape->n,
                               w->n);
    for (int i = 0; i < w->n; i++) {
        int64_t size;
        const sparta_expr *out = given
                                     ? sparta_expr_const(g->arena, shape->ints[i])
                                     : spread(g, w, SPARTA_WINDOW_DIMS - w->n + i, n->in[0]->dims.dim[2 + i]);
        SPARTA_TRY(sparta_ops_append(g, n, dims, out));
        SPARTA_TRY(check_reach(g, n, w, SPARTA_WINDOW_DIMS - w->n + i, n->in[0]->dims.dim[2 + i], out));
        if (sparta_expr_is_const(out, &size) && size < 1)
            return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "spatial dim %d would be %lld; pads are too large",
                                   i, (long long)size);
    }
    return SPARTA_OK;
}

sparta_status sparta_shape_ConvTranspose(sparta_graph *g, sparta_node *n)
{
    const sparta_dims *x = &n->in[0]->dims, *w = &n->in[1]->dims;
    sparta_window window;
    int64_t channels;
    SPARTA_TRY(sparta_ops_types(g, n, 0, SPARTA_FLOATS));
    for (int i = 1; i < 3; i++) SPARTA_TRY(sparta_ops_same_type(g, n, 0, i));
    SPARTA_TRY(sparta_ops_rank(g, n, 0, 3, 2 + SPARTA_WINDOW_DIMS));
    SPARTA_TRY(sparta_ops_window(g, n, w, &window));
    SPARTA_TRY(sparta_ops_agree(g, n, "channels of the input and of the weights", x->dim[1], w->dim[0]));
    if (!sparta_expr_is_const(w->dim[0], &channels) || channels % window.group)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "%s channels do not make %lld groups",
                               sparta_ops_say(g, w->dim[0]), (long long)window.group);
    const sparta_expr *group = sparta_expr_const(g->arena, window.group),
                      *filters = group ? sparta_expr_mul(g->arena, w->dim[1], group) : NULL;
    SPARTA_NEED(g->cx, filters);
    SPARTA_TRY(sparta_ops_filter_bias(g, n, filters));
    sparta_dims dims = {.rank = 2, .dim = {x->dim[0], filters}};
    SPARTA_TRY(add_spatial(g, n, &window, &dims));
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return SPARTA_OK;
}

/* x: b (g i) h, w: (g i) o t, bias: (g o), y: b (g o) p. Constants give no constant: windows overlap. */
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
    SPARTA_TRY(sparta_axes_label(a, each, SPARTA_SUM, NULL, &i));
    SPARTA_TRY(sparta_axes_label(a, w->dim[1], SPARTA_EACH, NULL, &o));
    SPARTA_TRY(sparta_flow_window(a, &window, SPARTA_SUM));
    a->how = SPARTA_FLOW_PRODUCT;
    a->no_values = true;
    a->in[0].role = a->in[1].role = SPARTA_FACTOR;
    a->label[g].run = window.group;
    a->in[0].axis[1] = a->in[1].axis[0] = sparta_axis_pair(g, i);
    a->in[1].axis[1] = sparta_axis_of(o);
    a->out[0].axis[1] = sparta_axis_pair(g, o);
    for (int k = 0; k < window.n; k++) { /* enough input for an output, where only biases are looked at */
        int at = SPARTA_WINDOW_DIMS - window.n + k;
        int64_t pads = window.before[at] + window.after[at], in = pads + 1;
        SPARTA_TRY(sparta_flow_taps(a, 2 + k));
        a->label[a->in[0].axis[2 + k].label[0]].run = in;
        int64_t out, rest = window.extra[at] + sparta_window_effective(&window, at) - pads;
        bool fits = sparta_int_mul(window.stride[at], in - 1, &out) && sparta_int_add(out, rest, &out);
        a->label[a->out[0].axis[2 + k].label[0]].run = fits ? out : -1;
    }
    if (sparta_ops_has(n, 2)) {
        a->in[2].role = SPARTA_TERM;
        a->in[2].axis[0] = sparta_axis_pair(g, o);
    }
    return SPARTA_OK;
}

const sparta_flow sparta_flow_ConvTranspose = {
    SPARTA_CONSERVATIVE,
    "zero where every product of its sum is; channels go, constants of its input stay",
    "floats",
    "",
    axes,
    sparta_shrink_groups};
