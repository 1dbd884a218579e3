/* The rules of window.h. */
#include "ops/window.h"

#define D SPARTA_WINDOW_DIMS

sparta_status sparta_ops_window(const sparta_graph *g, const sparta_node *n, const sparta_dims *weights,
                                sparta_window *out)
{
    const int spatial = n->in[0]->dims.rank - 2;
    int64_t kernel[SPARTA_RANK];
    if (weights && weights->rank != spatial + 2)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE,
                               "the input has rank %d and the weights have rank %d (%s)", spatial + 2,
                               weights->rank, sparta_ops_say_dims(g, weights));
    for (int i = 0; weights && i < spatial; i++)
        if (!sparta_expr_is_const(weights->dim[2 + i], &kernel[i]))
            return sparta_ops_fail(g, n, SPARTA_E_UNSUPPORTED,
                                   "the size of the kernel depends on a symbol (%s); fix it with --dim",
                                   sparta_ops_say_dims(g, weights));
    if (sparta_window_read(g->cx, &n->attrs, spatial, weights ? kernel : NULL, out) != SPARTA_OK)
        return sparta_fail_in(g->cx, "%s '%.200s'", sparta_builtin_row(n->op)->name, n->name);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ sizes */
static const sparta_expr *plus(const sparta_graph *g, const sparta_expr *x, int64_t by)
{
    const sparta_expr *c = sparta_expr_const(g->arena, by);
    return x && c ? sparta_expr_add(g->arena, x, c) : NULL;
}

/* x / by, rounded up or down */
static const sparta_expr *share(const sparta_graph *g, const sparta_expr *x, int64_t by, bool up)
{
    const sparta_expr *c = sparta_expr_const(g->arena, by);
    x = up ? plus(g, x, by - 1) : x;
    return x && c ? sparta_expr_div(g->arena, x, c) : NULL;
}

/* One spatial dim of a sliding window; NULL after a message. Windows that ceil_mode adds must begin inside of x or the padding in
 * front of it. */
static const sparta_expr *slide(const sparta_graph *g, const sparta_window *w, int i, const sparta_expr *in,
                                bool ceil)
{
    if (w->padding == SPARTA_PAD_UPPER || w->padding == SPARTA_PAD_LOWER)
        return share(g, in, w->stride[i], true);
    const sparta_expr *room =
        plus(g, in, w->before[i] + w->after[i] - sparta_window_effective(w, i)); /* to move in */
    ceil &= w->padding == SPARTA_PAD_GIVEN;
    const sparta_expr *all = plus(g, share(g, room, w->stride[i], ceil), 1);
    if (!ceil || !all) return all;
    const sparta_expr *begin = share(g, plus(g, in, w->before[i]), w->stride[i], true);
    return begin ? sparta_expr_min(g->arena, all, begin) : NULL;
}

sparta_status sparta_ops_slide(const sparta_graph *g, const sparta_node *n, const sparta_window *w,
                               sparta_dims *dims)
{
    const sparta_dims *x = &n->in[0]->dims;
    const bool ceil = sparta_attr_int(&n->attrs, "ceil_mode", 0);
    for (int i = D - w->n; i < D; i++) {
        const sparta_expr *in = x->dim[x->rank - D + i];
        int64_t size;
        if (w->padding != SPARTA_PAD_UPPER && w->padding != SPARTA_PAD_LOWER &&
            sparta_expr_is_const(in, &size) &&
            sparta_window_effective(w, i) - w->before[i] - w->after[i] > size)
            return sparta_ops_fail(g, n, SPARTA_E_SHAPE,
                                   "the kernel spans %lld in spatial dim %d, where the input has only %lld, "
                                   "and pads of %lld and %lld",
                                   (long long)sparta_window_effective(w, i), i - (D - w->n), (long long)size,
                                   (long long)w->before[i], (long long)w->after[i]);
        SPARTA_TRY(sparta_ops_append(g, n, dims, slide(g, w, i, in, ceil)));
    }
    return SPARTA_OK;
}

sparta_status sparta_ops_per_channel(sparta_graph *g, const sparta_node *n, int i)
{
    if (!sparta_ops_has(n, i)) return SPARTA_OK;
    SPARTA_TRY(sparta_ops_rank(g, n, i, 1, 1));
    return sparta_ops_agree(g, n, "the channels of the input and of scale, bias, mean or variance",
                            n->in[0]->dims.dim[1], n->in[i]->dims.dim[0]);
}

/* ------------------------------------------------------------------ pools */
/* A window in padding alone has nothing to pool. */
static sparta_status check_pads(const sparta_graph *g, const sparta_node *n, const sparta_window *w)
{
    for (int i = D - w->n; i < D; i++)
        if (SPARTA_MAX(w->before[i], w->after[i]) >= w->kernel[i])
            return sparta_ops_fail(g, n, SPARTA_E_SHAPE,
                                   "pads of %lld and %lld in spatial dim %d, where the kernel has %lld; they "
                                   "must be smaller than it",
                                   (long long)w->before[i], (long long)w->after[i], i - (D - w->n),
                                   (long long)w->kernel[i]);
    return SPARTA_OK;
}

sparta_status sparta_ops_pool(sparta_graph *g, sparta_node *n, unsigned types)
{
    const sparta_value *x = n->in[0];
    sparta_window w;
    SPARTA_TRY(sparta_ops_types(g, n, 0, types));
    SPARTA_TRY(sparta_ops_rank(g, n, 0, 3, 2 + D));
    SPARTA_TRY(sparta_ops_window(g, n, NULL, &w));
    SPARTA_TRY(check_pads(g, n, &w));
    sparta_dims dims = {.rank = 2, .dim = {x->dims.dim[0], x->dims.dim[1]}};
    SPARTA_TRY(sparta_ops_slide(g, n, &w, &dims));
    sparta_ops_set(n, 0, x->dtype, &dims);
    sparta_ops_set(n, 1, SPARTA_I64, &dims);
    return SPARTA_OK;
}

sparta_status sparta_ops_pool_all(sparta_graph *g, sparta_node *n)
{
    sparta_dims dims = n->in[0]->dims;
    SPARTA_TRY(sparta_ops_types(g, n, 0, SPARTA_FLOATS));
    SPARTA_TRY(sparta_ops_rank(g, n, 0, 2, SPARTA_RANK));
    for (int i = 2; i < dims.rank; i++) {
        dims.dim[i] = sparta_expr_const(g->arena, 1);
        SPARTA_NEED(g->cx, dims.dim[i]);
    }
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return SPARTA_OK;
}

sparta_status sparta_ops_filter_bias(sparta_graph *g, const sparta_node *n, const sparta_expr *filters)
{
    if (!sparta_ops_has(n, 2)) return SPARTA_OK;
    SPARTA_TRY(sparta_ops_rank(g, n, 2, 1, 1));
    return sparta_ops_agree(g, n, "filters of the weights and elements of the bias", filters,
                            n->in[2]->dims.dim[0]);
}

/* ------------------------------------------------------------------ work */
int64_t sparta_ops_window_work(const sparta_node *n)
{
    const sparta_attr *kernel = sparta_attr_find(&n->attrs, "kernel_shape");
    int64_t work = 1;
    if (n->op == SPARTA_OP_Conv || n->op == SPARTA_OP_ConvTranspose)
        return sparta_tensor_elements(n->in[1]->constant); /* more than a filter has */
    for (int i = 0; kernel && i < kernel->n; i++)
        if (!sparta_int_mul(work, kernel->ints[i], &work)) return INT64_MAX;
    return work;
}

sparta_status sparta_flow_taps(sparta_axes *a, int k)
{
    int t;
    SPARTA_TRY(sparta_axes_label(a, a->n->in[1]->dims.dim[k], SPARTA_SUM, "they are the kernel's taps", &t));
    a->label[t].run = a->label[t].size;
    a->in[1].axis[k] = sparta_axis_of(t);
    return SPARTA_OK;
}

sparta_status sparta_shrink_groups(const sparta_shrink *s)
{
    return sparta_shrink_int(s, "group", sparta_shrink_count(s, 0, 0, s->axes->label[0].size));
}

/* ------------------------------------------------------------------ flow */
bool sparta_window_padded(const sparta_window *w)
{
    bool padded = w->padding == SPARTA_PAD_UPPER || w->padding == SPARTA_PAD_LOWER;
    for (int i = 0; i < SPARTA_WINDOW_DIMS; i++) padded |= w->before[i] || w->after[i];
    return padded;
}

sparta_status sparta_flow_window(sparta_axes *a, const sparta_window *w, sparta_label_kind kind)
{
    const sparta_value *x = a->n->in[0], *y = a->n->out[0];
    int b, in, out;
    SPARTA_TRY(sparta_axes_label(a, x->dims.dim[0], SPARTA_EACH, NULL, &b));
    a->in[0].axis[0] = a->out[0].axis[0] = sparta_axis_of(b);
    a->out[0].role = SPARTA_ARG;
    for (int i = 0; i < w->n; i++) {
        int at = SPARTA_WINDOW_DIMS - w->n + i;
        int64_t size = sparta_window_effective(w, at), pads = w->before[at] + w->after[at];
        SPARTA_TRY(sparta_axes_label(a, x->dims.dim[2 + i], kind, "a window slides over them", &in));
        SPARTA_TRY(sparta_axes_label(a, y->dims.dim[2 + i], SPARTA_EACH, "a window slides over them", &out));
        bool same = w->padding == SPARTA_PAD_UPPER || w->padding == SPARTA_PAD_LOWER;
        a->label[in].run = size;
        a->label[in].alike = true; /* a window of all of them is not every window, even if it is as large */
        a->label[out].run = same ? (size + w->stride[at] - 1) / w->stride[at] : pads / w->stride[at] + 1;
        a->in[0].axis[2 + i] = sparta_axis_of(in);
        a->out[0].axis[2 + i] = sparta_axis_of(out);
    }
    return SPARTA_OK;
}

/* Can a dilated window step over all of the input? There is nothing in it to pool: -inf, or 0/0. */
static bool steps_over(const sparta_axes *a, const sparta_window *w)
{
    const sparta_dims *x = &a->n->in[0]->dims;
    int64_t size;
    for (int i = D - w->n; i < D; i++)
        if (sparta_window_padded(w) && w->dilation[i] > 1 &&
            (!sparta_expr_is_const(x->dim[x->rank - D + i], &size) || size < w->dilation[i]))
            return true;
    return false;
}

sparta_status sparta_flow_pool(sparta_axes *a, sparta_flow_how how, bool values)
{
    sparta_window w;
    int c;
    if (a->n->n_out > 1) return SPARTA_OK;
    SPARTA_TRY(sparta_ops_window(a->g, a->n, NULL, &w));
    if (steps_over(a, &w)) return SPARTA_OK;
    SPARTA_TRY(sparta_flow_window(a, &w, how == SPARTA_FLOW_PRODUCT ? SPARTA_SUM : SPARTA_WHOLE));
    SPARTA_TRY(sparta_axes_label(a, a->n->in[0]->dims.dim[1], SPARTA_EACH, NULL, &c));
    a->how = how;
    a->in[0].role = how == SPARTA_FLOW_PRODUCT ? SPARTA_FACTOR : SPARTA_ARG;
    a->in[0].axis[1] = a->out[0].axis[1] = sparta_axis_of(c);
    a->no_values = !values;
    return SPARTA_OK;
}

sparta_status sparta_flow_pool_all(sparta_axes *a, sparta_flow_how how, bool values)
{
    const sparta_value *x = a->n->in[0];
    int label[SPARTA_RANK];
    SPARTA_TRY(sparta_axes_labels(a, x, label));
    a->how = how;
    a->no_values = !values;
    a->in[0].role = how == SPARTA_FLOW_PRODUCT ? SPARTA_FACTOR : SPARTA_ARG;
    a->out[0].role = SPARTA_ARG;
    for (int i = 0; i < x->dims.rank; i++) {
        sparta_label *l = &a->label[label[i]];
        a->in[0].axis[i] = sparta_axis_of(label[i]);
        if (i < 2) a->out[0].axis[i] = sparta_axis_of(label[i]);
        if (i < 2) continue;
        l->kind = how == SPARTA_FLOW_PRODUCT ? SPARTA_SUM : SPARTA_WHOLE;
        l->why = "a pool runs over them";
        /* what is alike has this mean and this maximum, however many there are; but a sum of doubles rounds */
        if (l->size < 0 && (how == SPARTA_FLOW_FUNCTION || x->dtype != SPARTA_F64)) l->run = 1;
    }
    return SPARTA_OK;
}
