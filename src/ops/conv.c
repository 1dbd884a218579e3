/* Conv and ConvTranspose: x (N, C, in...) and weights give (N, M, out...); the bias is (M). Weights are (M, C/group, kernel...), and
 * (C, M/group, kernel...) of a ConvTranspose, whose sizes are
 *
 *     out = stride (in - 1) + output_padding + effective kernel - before - after
 *     out = attribute output_shape where it is given, stride in for SAME
 */
#include "ops/ints.h"
#include "ops/window.h"

/* ------------------------------------------------------------------ shapes */
/* One spatial dim; NULL after a message. */
static const sp_expr *spread(const sp_graph *g, const sp_window *w, int i, const sp_expr *in)
{
    const sp_expr *out = sp_expr_mul(g->arena, in, sp_expr_const(g->arena, w->stride[i]));
    if (w->padding == SP_PAD_UPPER || w->padding == SP_PAD_LOWER) return out;
    return sp_ops_plus(g, out,
                       w->extra[i] + sp_window_effective(w, i) - w->stride[i] - w->before[i] - w->after[i]);
}

/* The result may not be larger than what the kernels reach, by a stride or more: runtimes disagree on what would be there. */
static sparta_status check_reach(const sp_graph *g, const sp_node *n, const sp_window *w, int i,
                                 const sp_expr *in, const sp_expr *out)
{
    sp_window whole = *w;
    whole.padding = SP_PAD_NONE;
    whole.before[i] = whole.after[i] = 0;
    const sp_expr *reach = spread(g, &whole, i, in), *beyond = sp_expr_sub(g->arena, out, reach);
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

/* What is cut into groups, the first dim of the weights, comes out even; the other side has the second dim for each group. */
static sparta_status check(sp_graph *g, const sp_node *n, const char *what, sp_window *w, const sp_expr **all)
{
    const sp_dims *weights = &n->in[1]->dims;
    int64_t first;
    for (int i = 1; i < 3; i++) SP_TRY(sp_ops_same_type(g, n, 0, i));
    SP_TRY(sp_ops_rank(g, n, 0, 3, 2 + SP_WINDOW_DIMS));
    SP_TRY(sp_ops_window(g, n, weights, w));
    if (!sp_expr_is_const(weights->dim[0], &first) || first % w->group)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%s %s do not make %lld groups",
                           sp_ops_say(g, weights->dim[0]), what, (long long)w->group);
    *all = sp_expr_mul(g->arena, weights->dim[1], sp_expr_const(g->arena, w->group));
    SP_NEED(g->cx, *all);
    return SPARTA_OK;
}

static sparta_status check_bias(sp_graph *g, const sp_node *n, const sp_expr *filters)
{
    SP_TRY(sp_ops_rank(g, n, 2, 1, 1));
    if (!sp_ops_has(n, 2)) return SPARTA_OK;
    return sp_ops_agree(g, n, "filters of the weights and elements of the bias", filters,
                        n->in[2]->dims.dim[0]);
}

static sparta_status conv_shape(sp_graph *g, sp_node *n)
{
    const sp_dims *x = &n->in[0]->dims, *w = &n->in[1]->dims;
    sp_window window;
    const sp_expr *channels = NULL;
    SP_TRY(check(g, n, "filters", &window, &channels));
    SP_TRY(sp_ops_agree(g, n, "channels of the input, and of the weights times group", x->dim[1], channels));
    SP_TRY(check_bias(g, n, w->dim[0]));
    sp_dims dims = {.rank = 2, .dim = {x->dim[0], w->dim[0]}};
    SP_TRY(sp_ops_slide(g, n, &window, &dims));
    return sp_ops_done(n, n->in[0]->dtype, &dims);
}

static sparta_status transposed_shape(sp_graph *g, sp_node *n)
{
    const sp_dims *x = &n->in[0]->dims, *w = &n->in[1]->dims;
    sp_window window;
    const sp_expr *filters = NULL;
    SP_TRY(check(g, n, "channels", &window, &filters));
    SP_TRY(sp_ops_agree(g, n, "channels of the input and of the weights", x->dim[1], w->dim[0]));
    SP_TRY(check_bias(g, n, filters));
    sp_dims dims = {.rank = 2, .dim = {x->dim[0], filters}};
    SP_TRY(add_spatial(g, n, &window, &dims));
    return sp_ops_done(n, n->in[0]->dtype, &dims);
}

/* ------------------------------------------------------------------ flow */
/* x: b (g i) h, bias: (g o), y: b (g o) p; w: (g o) i t, or (g i) o t. */
static sparta_status labels(sp_axes *a, bool transposed, sp_window *window)
{
    const sp_node *n = a->n;
    const sp_dims *w = &n->in[1]->dims;
    int g, first, second;
    SP_TRY(sp_ops_window(a->g, n, w, window));
    const sp_expr *group = sp_expr_const(a->g->arena, window->group),
                  *each = sp_expr_div(a->g->arena, w->dim[0], group);
    SP_NEED(a->g->cx, each);
    SP_TRY(sp_axes_label(a, group, SP_EACH, NULL, &g));
    SP_TRY(sp_axes_label(a, each, transposed ? SP_SUM : SP_EACH, NULL, &first));
    SP_TRY(sp_axes_label(a, w->dim[1], transposed ? SP_EACH : SP_SUM, NULL, &second));
    SP_TRY(sp_flow_window(a, window, SP_SUM));
    const int i = transposed ? first : second, o = transposed ? second : first;
    a->how = SP_FLOW_PRODUCT;
    a->in[0].role = a->in[1].role = SP_FACTOR;
    a->label[g].run = window->group;
    a->in[0].axis[1] = sp_axis_pair(g, i);
    a->in[1].axis[0] = sp_axis_pair(g, first);
    a->in[1].axis[1] = sp_axis_of(second);
    a->out[0].axis[1] = sp_axis_pair(g, o);
    for (int k = 2; k < w->rank; k++) {
        int t;
        SP_TRY(sp_axes_label(a, w->dim[k], SP_SUM, "they are the kernel's taps", &t));
        a->label[t].run = a->label[t].size;
        a->in[1].axis[k] = sp_axis_of(t);
    }
    if (sp_ops_has(n, 2)) a->in[2] = (sp_flow_operand){.role = SP_TERM, .axis = {sp_axis_pair(g, o)}};
    return SPARTA_OK;
}

/* A border of zeros is not the constant. */
static sparta_status conv_axes(sp_axes *a)
{
    sp_window window;
    SP_TRY(labels(a, false, &window));
    a->no_values = sp_window_padded(&window);
    a->bias = 2;
    a->bias_axis = 1;
    return SPARTA_OK;
}

/* Constants give no constant: windows overlap. */
static sparta_status transposed_axes(sp_axes *a)
{
    sp_window window;
    SP_TRY(labels(a, true, &window));
    a->no_values = true;
    for (int k = 0; k < window.n; k++) { /* enough input for an output, where only biases are looked at */
        int at = SP_WINDOW_DIMS - window.n + k;
        int64_t pads = window.before[at] + window.after[at], in = pads + 1;
        int64_t out, rest = window.extra[at] + sp_window_effective(&window, at) - pads;
        bool fits = sp_int_mul(window.stride[at], in - 1, &out) && sp_int_add(out, rest, &out);
        a->label[a->in[0].axis[2 + k].label[0]].run = in;
        a->label[a->out[0].axis[2 + k].label[0]].run = fits ? out : -1;
    }
    return SPARTA_OK;
}

/* Attribute group; label 0 is the groups. */
static sparta_status shrink(const sp_shrink *s)
{
    return sp_shrink_int(s, "group", sp_shrink_count(s, 0, 0, s->axes->label[0].size));
}

SP_RULE(Conv, conv_shape, SP_FLOATS, SP_EXACT, conv_axes, shrink,
        "zero where every product of its sum is; channels go, of grouped ones the same in each group or "
        "whole groups",
        "");
SP_RULE(ConvTranspose, transposed_shape, SP_FLOATS, SP_CONSERVATIVE, transposed_axes, shrink,
        "zero where every product of its sum is; channels go, constants of its input stay", "");
