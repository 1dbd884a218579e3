/* Pools, channel by channel: MaxPool, AveragePool and LpPool over windows, (N, C, in...) gives (N, C, out...); Global... over all
 * spatial dims, (N, C, in...) gives (N, C, 1, ...). */
#include "ops/window.h"

#define D SP_WINDOW_DIMS

/* ------------------------------------------------------------------ shapes */
/* A window in padding alone has nothing to pool. */
static sparta_status check_pads(const sp_graph *g, const sp_node *n, const sp_window *w)
{
    for (int i = D - w->n; i < D; i++)
        if (SP_MAX(w->before[i], w->after[i]) >= w->kernel[i])
            return sp_ops_fail(g, n, SPARTA_E_SHAPE,
                               "pads of %lld and %lld in spatial dim %d, where the kernel has %lld; they "
                               "must be smaller than it",
                               (long long)w->before[i], (long long)w->after[i], i - (D - w->n),
                               (long long)w->kernel[i]);
    return SPARTA_OK;
}

/* The second output, where each element stood, is i64. */
static sparta_status windows(sp_graph *g, sp_node *n)
{
    const sp_value *x = n->in[0];
    sp_window w;
    SP_TRY(sp_ops_rank(g, n, 0, 3, 2 + D));
    SP_TRY(sp_ops_window(g, n, NULL, &w));
    SP_TRY(check_pads(g, n, &w));
    sp_dims dims = {.rank = 2, .dim = {x->dims.dim[0], x->dims.dim[1]}};
    SP_TRY(sp_ops_slide(g, n, &w, &dims));
    sp_ops_set(n, 0, x->dtype, &dims);
    sp_ops_set(n, 1, SPARTA_I64, &dims);
    return SPARTA_OK;
}

static sparta_status planes(sp_graph *g, sp_node *n)
{
    sp_dims dims = n->in[0]->dims;
    SP_TRY(sp_ops_rank(g, n, 0, 2, SPARTA_RANK));
    for (int i = 2; i < dims.rank; i++) {
        dims.dim[i] = sp_expr_const(g->arena, 1);
        SP_NEED(g->cx, dims.dim[i]);
    }
    return sp_ops_done(n, n->in[0]->dtype, &dims);
}

static sparta_status check_power(sp_graph *g, sp_node *n)
{
    const int64_t p = sp_attr_int(&n->attrs, "p", 2);
    return p < 1 ? sp_ops_fail(g, n, SPARTA_E_SHAPE, "p is %lld; at least 1", (long long)p) : SPARTA_OK;
}

static sparta_status lp_windows(sp_graph *g, sp_node *n)
{
    SP_TRY(check_power(g, n));
    return windows(g, n);
}

static sparta_status lp_planes(sp_graph *g, sp_node *n)
{
    SP_TRY(check_power(g, n));
    return planes(g, n);
}

/* ------------------------------------------------------------------ flow */
/* Can a dilated window step over all of the input? There is nothing in it to pool: -inf, or 0/0. */
static bool steps_over(const sp_axes *a, const sp_window *w)
{
    const sp_dims *x = &a->n->in[0]->dims;
    int64_t size;
    for (int i = D - w->n; i < D; i++)
        if (sp_window_padded(w) && w->dilation[i] > 1 &&
            (!sp_expr_is_const(x->dim[x->rank - D + i], &size) || size < w->dilation[i]))
            return true;
    return false;
}

static sparta_status window_axes(sp_axes *a, sp_flow_how how, bool values)
{
    sp_window w;
    int c;
    if (a->n->n_out > 1) return SPARTA_OK;
    SP_TRY(sp_ops_window(a->g, a->n, NULL, &w));
    if (steps_over(a, &w)) return SPARTA_OK;
    SP_TRY(sp_flow_window(a, &w, how == SP_FLOW_PRODUCT ? SP_SUM : SP_WHOLE));
    SP_TRY(sp_axes_label(a, a->n->in[0]->dims.dim[1], SP_EACH, NULL, &c));
    a->how = how;
    a->in[0].role = how == SP_FLOW_PRODUCT ? SP_FACTOR : SP_ARG;
    a->in[0].axis[1] = a->out[0].axis[1] = sp_axis_of(c);
    a->no_values = !values;
    return SPARTA_OK;
}

static sparta_status plane_axes(sp_axes *a, sp_flow_how how, bool values)
{
    const sp_value *x = a->n->in[0];
    int label[SPARTA_RANK];
    SP_TRY(sp_axes_labels(a, x, label));
    a->how = how;
    a->no_values = !values;
    a->in[0].role = how == SP_FLOW_PRODUCT ? SP_FACTOR : SP_ARG;
    a->out[0].role = SP_ARG;
    for (int i = 0; i < x->dims.rank; i++) {
        sp_label *l = &a->label[label[i]];
        a->in[0].axis[i] = sp_axis_of(label[i]);
        if (i < 2) a->out[0].axis[i] = sp_axis_of(label[i]);
        if (i < 2) continue;
        l->kind = how == SP_FLOW_PRODUCT ? SP_SUM : SP_WHOLE;
        l->why = "a pool runs over them";
        /* what is alike has this mean and this maximum, however many there are; but a sum of doubles rounds */
        if (l->size < 0 && (how == SP_FLOW_FUNCTION || x->dtype != SPARTA_F64)) l->run = 1;
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the operators */
#define POOL(id, shape, types, exact, axes, says)                                                            \
    static sparta_status id##_axes(sp_axes *a)                                                               \
    {                                                                                                        \
        return axes;                                                                                         \
    }                                                                                                        \
    SP_RULE(id, shape, types, exact, id##_axes, NULL, says, "")

/* A padded border is no part of the mean's constant; it is never the maximum. */
static sparta_status average_axes(sp_axes *a)
{
    sp_window w;
    SP_TRY(sp_ops_window(a->g, a->n, NULL, &w));
    return window_axes(a, SP_FLOW_PRODUCT,
                       !sp_window_padded(&w) && !sp_attr_int(&a->n->attrs, "ceil_mode", 0));
}

POOL(MaxPool, windows, SP_FLOATS | SP_TYPE(SPARTA_I8) | SP_TYPE(SPARTA_U8), SP_EXACT,
     window_axes(a, SP_FLOW_FUNCTION, true),
     "channel by channel; a constant channel stays constant; opaque with the second output");
POOL(AveragePool, windows, SP_FLOATS, SP_EXACT, average_axes(a),
     "channel by channel; zero stays zero, a constant stays one where nothing is padded");
POOL(LpPool, lp_windows, SP_FLOATS, SP_CONSERVATIVE, window_axes(a, SP_FLOW_PRODUCT, false),
     "channel by channel; zero stays zero");
POOL(GlobalMaxPool, planes, SP_FLOATS, SP_EXACT, plane_axes(a, SP_FLOW_FUNCTION, true), "channel by channel");
POOL(GlobalAveragePool, planes, SP_FLOATS, SP_EXACT, plane_axes(a, SP_FLOW_PRODUCT, true),
     "channel by channel");
POOL(GlobalLpPool, lp_planes, SP_FLOATS, SP_CONSERVATIVE, plane_axes(a, SP_FLOW_PRODUCT, false),
     "channel by channel; zero stays zero");
