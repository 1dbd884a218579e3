/* ConvTranspose: x (N, C, in...) and weights (C, M/group, kernel...) give (N, M, out...); the bias is (M).
 *
 *     out = stride (in - 1) + output_padding + effective kernel - before - after
 *     out = attribute output_shape where it is given, stride in for SAME
 */
#include "ops/flow.h"
#include "ops/window.h"

/* One spatial dim; NULL after a message. */
static const sp_expr *spread(const sp_graph *g, const sp_window *w, int i, const sp_expr *in)
{
    const sp_expr *stride = sp_expr_const(g->arena, w->stride[i]),
                  *out = stride ? sp_expr_mul(g->arena, in, stride) : NULL;
    if (!out || w->padding == SP_PAD_UPPER || w->padding == SP_PAD_LOWER) return out;
    const sp_expr *rest = sp_expr_const(g->arena, w->extra[i] + sp_window_effective(w, i) - w->stride[i] -
                                                      w->before[i] - w->after[i]);
    return rest ? sp_expr_add(g->arena, out, rest) : NULL;
}

/* The result may not be larger than what the kernels reach, by a stride or more: runtimes disagree on what would be there. */
static sparta_status check_reach(const sp_graph *g, const sp_node *n, const sp_window *w, int i,
                                 const sp_expr *in, const sp_expr *out)
{
    sp_window whole = *w;
    whole.padding = SP_PAD_NONE;
    whole.before[i] = whole.after[i] = 0;
    const sp_expr *reach = spread(g, &whole, i, in),
                  *beyond = reach ? sp_expr_sub(g->arena, out, reach) : NULL;
    int64_t by;
    SP_NEED(g->cx, beyond);
    const bool same = w->padding == SP_PAD_UPPER || w->padding == SP_PAD_LOWER;
    if (!sp_expr_is_const(beyond, &by) || by < (same ? 1 : w->stride[i])) return SPARTA_OK;
    return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED,
                       "the result would be %s in a spatial dim where the kernels reach only %s; use "
                       "output_padding, or another output_shape",
                       sp_ops_say(g, out), sp_ops_say(g, reach));
}

static sparta_status add_spatial(sp_graph *g, const sp_node *n, const sp_window *w, sp_dims *dims)
{
    const sp_attr *shape = sp_attr_find(&n->attrs, "output_shape");
    const bool given = shape && shape->n > 0;
    if (given && shape->n != w->n)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "output_shape has %d numbers; %d are needed", shape->n,
                           w->n);
    for (int i = 0; i < w->n; i++) {
        int64_t size;
        const sp_expr *out = given ? sp_expr_const(g->arena, shape->ints[i])
                                   : spread(g, w, SP_WINDOW_DIMS - w->n + i, n->in[0]->dims.dim[2 + i]);
        SP_TRY(sp_ops_append(g, n, dims, out));
        SP_TRY(check_reach(g, n, w, SP_WINDOW_DIMS - w->n + i, n->in[0]->dims.dim[2 + i], out));
        if (sp_expr_is_const(out, &size) && size < 1)
            return sp_ops_fail(g, n, SPARTA_E_SHAPE, "spatial dim %d would be %lld; pads are too large", i,
                               (long long)size);
    }
    return SPARTA_OK;
}

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_dims *x = &n->in[0]->dims, *w = &n->in[1]->dims;
    sp_window window;
    int64_t channels;
    for (int i = 1; i < 3; i++) SP_TRY(sp_ops_same_type(g, n, 0, i));
    SP_TRY(sp_ops_rank(g, n, 0, 3, 2 + SP_WINDOW_DIMS));
    SP_TRY(sp_ops_window(g, n, w, &window));
    SP_TRY(sp_ops_agree(g, n, "channels of the input and of the weights", x->dim[1], w->dim[0]));
    if (!sp_expr_is_const(w->dim[0], &channels) || channels % window.group)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%s channels do not make %lld groups",
                           sp_ops_say(g, w->dim[0]), (long long)window.group);
    const sp_expr *group = sp_expr_const(g->arena, window.group),
                  *filters = group ? sp_expr_mul(g->arena, w->dim[1], group) : NULL;
    SP_NEED(g->cx, filters);
    SP_TRY(sp_ops_filter_bias(g, n, filters));
    sp_dims dims = {.rank = 2, .dim = {x->dim[0], filters}};
    SP_TRY(add_spatial(g, n, &window, &dims));
    sp_ops_set(n, 0, n->in[0]->dtype, &dims);
    return SPARTA_OK;
}

/* x: b (g i) h, w: (g i) o t, bias: (g o), y: b (g o) p. Constants give no constant: windows overlap. */
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
    SP_TRY(sp_axes_label(a, each, SP_SUM, NULL, &i));
    SP_TRY(sp_axes_label(a, w->dim[1], SP_EACH, NULL, &o));
    SP_TRY(sp_flow_window(a, &window, SP_SUM));
    a->how = SP_FLOW_PRODUCT;
    a->no_values = true;
    a->in[0].role = a->in[1].role = SP_FACTOR;
    a->label[g].run = window.group;
    a->in[0].axis[1] = a->in[1].axis[0] = sp_axis_pair(g, i);
    a->in[1].axis[1] = sp_axis_of(o);
    a->out[0].axis[1] = sp_axis_pair(g, o);
    for (int k = 0; k < window.n; k++) { /* enough input for an output, where only biases are looked at */
        int at = SP_WINDOW_DIMS - window.n + k;
        int64_t pads = window.before[at] + window.after[at], in = pads + 1;
        SP_TRY(sp_flow_taps(a, 2 + k));
        a->label[a->in[0].axis[2 + k].label[0]].run = in;
        int64_t out, rest = window.extra[at] + sp_window_effective(&window, at) - pads;
        bool fits = sp_int_mul(window.stride[at], in - 1, &out) && sp_int_add(out, rest, &out);
        a->label[a->out[0].axis[2 + k].label[0]].run = fits ? out : -1;
    }
    if (sp_ops_has(n, 2)) {
        a->in[2].role = SP_TERM;
        a->in[2].axis[0] = sp_axis_pair(g, o);
    }
    return SPARTA_OK;
}

SP_RULE(ConvTranspose, shape, SP_FLOATS, SP_CONSERVATIVE, axes, sp_shrink_groups,
        "zero where every product of its sum is; channels go, constants of its input stay", "");
