/* The rules of window.h. */
#include "ops/window.h"
#include "ops/ints.h"

#define D SP_WINDOW_DIMS

sparta_status sp_ops_window(const sp_graph *g, const sp_node *n, const sp_dims *weights, sp_window *out)
{
    const int spatial = n->in[0]->dims.rank - 2;
    int64_t kernel[SPARTA_RANK];
    if (weights && weights->rank != spatial + 2)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "the input has rank %d and the weights have rank %d (%s)",
                           spatial + 2, weights->rank, sp_ops_say_dims(g, weights));
    for (int i = 0; weights && i < spatial; i++)
        if (!sp_expr_is_const(weights->dim[2 + i], &kernel[i]))
            return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED,
                               "the size of the kernel depends on a symbol (%s); fix it with options.dims",
                               sp_ops_say_dims(g, weights));
    if (sp_window_read(g->cx, &n->attrs, spatial, weights ? kernel : NULL, out) != SPARTA_OK)
        return sp_fail_in(g->cx, "%s '%.200s'", sp_builtin_row(n->op)->name, n->name);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ sizes */
/* One spatial dim of a sliding window; NULL after a message. Windows that ceil_mode adds must begin inside of x or the padding in
 * front of it. */
static const sp_expr *slide(const sp_graph *g, const sp_window *w, int i, const sp_expr *in, bool ceil)
{
    if (w->padding == SP_PAD_UPPER || w->padding == SP_PAD_LOWER)
        return sp_ops_share(g, in, w->stride[i], true);
    /* What the window has to move in. */
    const sp_expr *room = sp_ops_plus(g, in, w->before[i] + w->after[i] - sp_window_effective(w, i));
    ceil &= w->padding == SP_PAD_GIVEN;
    const sp_expr *all = sp_ops_plus(g, sp_ops_share(g, room, w->stride[i], ceil), 1);
    if (!ceil) return all;
    return sp_expr_min(g->arena, all, sp_ops_share(g, sp_ops_plus(g, in, w->before[i]), w->stride[i], true));
}

sparta_status sp_ops_slide(const sp_graph *g, const sp_node *n, const sp_window *w, sp_dims *dims)
{
    const sp_dims *x = &n->in[0]->dims;
    const bool ceil = sp_attr_int(&n->attrs, "ceil_mode", 0);
    for (int i = D - w->n; i < D; i++) {
        const sp_expr *in = x->dim[x->rank - D + i];
        int64_t size;
        if (w->padding != SP_PAD_UPPER && w->padding != SP_PAD_LOWER && sp_expr_is_const(in, &size) &&
            !sp_window_fits(w, i, size))
            return sp_ops_fail(g, n, SPARTA_E_SHAPE,
                               "the kernel spans %lld in spatial dim %d, where the input has only %lld, "
                               "and pads of %lld and %lld",
                               (long long)sp_window_effective(w, i), i - (D - w->n), (long long)size,
                               (long long)w->before[i], (long long)w->after[i]);
        SP_TRY(sp_ops_append(g, n, dims, slide(g, w, i, in, ceil)));
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ work */
int64_t sp_ops_window_work(const sp_node *n)
{
    const sp_attr *kernel = sp_attr_find(&n->attrs, "kernel_shape");
    int64_t work = 1;
    if (n->op == SP_OP_Conv || n->op == SP_OP_ConvTranspose)
        return sparta_tensor_elements(n->in[1]->constant); /* more than a filter has */
    for (int i = 0; kernel && i < kernel->n; i++)
        if (!sp_int_mul(work, kernel->ints[i], &work)) return INT64_MAX;
    return work;
}

/* ------------------------------------------------------------------ flow */
bool sp_window_padded(const sp_window *w)
{
    bool padded = w->padding == SP_PAD_UPPER || w->padding == SP_PAD_LOWER;
    for (int i = 0; i < SP_WINDOW_DIMS; i++) padded |= w->before[i] || w->after[i];
    return padded;
}

sparta_status sp_flow_window(sp_axes *a, const sp_window *w, sp_label_kind kind)
{
    const sp_value *x = a->n->in[0], *y = a->n->out[0];
    int b, in, out;
    SP_TRY(sp_axes_label(a, x->dims.dim[0], SP_EACH, NULL, &b));
    a->in[0].axis[0] = a->out[0].axis[0] = sp_axis_of(b);
    a->out[0].role = SP_ARG;
    for (int i = 0; i < w->n; i++) {
        int at = SP_WINDOW_DIMS - w->n + i;
        int64_t size = sp_window_effective(w, at), pads = w->before[at] + w->after[at];
        SP_TRY(sp_axes_label(a, x->dims.dim[2 + i], kind, "a window slides over them", &in));
        SP_TRY(sp_axes_label(a, y->dims.dim[2 + i], SP_EACH, "a window slides over them", &out));
        bool same = w->padding == SP_PAD_UPPER || w->padding == SP_PAD_LOWER;
        a->label[in].run = size;
        a->label[in].alike = true; /* a window of all of them is not every window, even if it is as large */
        a->label[out].run = same ? (size + w->stride[at] - 1) / w->stride[at] : pads / w->stride[at] + 1;
        a->in[0].axis[2 + i] = sp_axis_of(in);
        a->out[0].axis[2 + i] = sp_axis_of(out);
    }
    return SPARTA_OK;
}
