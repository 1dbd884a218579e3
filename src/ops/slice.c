/* Slice: along each axis the elements start, start + step, ... before end. Bounds may be sizes: x[:,
 * :sequence].
 *
 * A bound that is a symbol cannot be clamped to a dim that is a number without leaving a min() in every shape
 * that follows. It is taken to lie within the dim (position tables are longer than sequences), and the
 * reference refuses the run where it does not. */
#include "ops/ints.h"
#include "builtin/view.h"

#define FAR                                                                                                  \
    ((int64_t)1 << 31) /* exporters write "to the end" as INT32_MAX or INT64_MAX, or their negatives */

typedef struct cut {
    const sparta_expr *size, *start, *end;
    int64_t step;
} cut;

static const sparta_expr *plus(sparta_graph *g, const sparta_expr *x, int64_t by)
{
    const sparta_expr *y = sparta_expr_const(g->arena, by);
    return y ? sparta_expr_add(g->arena, x, y) : NULL;
}

/* A bound counted from the front, not yet clamped; NULL: its sign is not known (without message), or a
 * failure (with one). */
static const sparta_expr *from_front(sparta_graph *g, const sparta_expr *bound, const sparta_expr *size)
{
    if (sparta_ops_natural(g, bound)) return bound;
    return sparta_ops_negative(g, bound) ? sparta_expr_add(g->arena, size, bound) : NULL;
}

/* min(bound, size), without the min where one side is known or assumed to be the smaller. */
static const sparta_expr *clamp(sparta_graph *g, const sparta_expr *bound, const sparta_expr *size)
{
    const sparta_expr *room = sparta_expr_sub(g->arena, size, bound),
                      *excess = sparta_expr_sub(g->arena, bound, size);
    if (!room || !excess) return NULL;
    if (sparta_ops_natural(g, room)) return bound;
    if (sparta_ops_natural(g, excess)) return size;
    if (sparta_expr_is_const(size, NULL)) return bound; /* assumed: see above */
    return sparta_expr_min(g->arena, bound, size);
}

/* x[-5:] of a dim shorter than 5 begins at 0. */
static const sparta_expr *at_least_zero(sparta_graph *g, const sparta_expr *x)
{
    if (sparta_ops_natural(g, x)) return x;
    const sparta_expr *zero = sparta_expr_const(g->arena, 0);
    return zero ? sparta_expr_max(g->arena, x, zero) : NULL;
}

/* ceil(max(to - from, 0) / step) */
static const sparta_expr *count(sparta_graph *g, const sparta_expr *from, const sparta_expr *to, int64_t step)
{
    const sparta_expr *span = sparta_expr_sub(g->arena, to, from), *zero = sparta_expr_const(g->arena, 0);
    if (!span || !zero) return NULL;
    if (!sparta_ops_natural(g, span)) span = sparta_expr_max(g->arena, span, zero);
    if (!span || step == 1) return span;
    const sparta_expr *more = plus(g, span, step - 1), *by = sparta_expr_const(g->arena, step);
    return more && by ? sparta_expr_div(g->arena, more, by) : NULL;
}

/* Forwards: clamp both to the size. Backwards: from at most size - 1 down to above -1. NULL as from_front. */
static const sparta_expr *measure(sparta_graph *g, const cut *c)
{
    int64_t start, end;
    bool start_known = sparta_expr_is_const(c->start, &start), end_known = sparta_expr_is_const(c->end, &end);
    const sparta_expr *from, *to, *last = c->step < 0 ? plus(g, c->size, -1) : c->size;
    if (!last) return NULL;
    if (start_known && (start <= -FAR || start >= FAR - 1))
        from = start > 0 ? last : sparta_expr_const(g->arena, c->step < 0 ? -1 : 0);
    else
        from = from_front(g, c->start, c->size);
    if (end_known && (end <= -FAR || end >= FAR - 1))
        to = end > 0 ? last : sparta_expr_const(g->arena, c->step < 0 ? -1 : 0);
    else
        to = from_front(g, c->end, c->size);
    from = from ? clamp(g, from, last) : NULL;
    to = to ? clamp(g, to, last) : NULL;
    if (!from || !to) return NULL;
    if (c->step > 0) {
        from = at_least_zero(g, from);
        to = at_least_zero(g, to);
        if (!from || !to) return NULL;
    }
    return c->step > 0 ? count(g, from, to, c->step) : count(g, to, from, -c->step);
}

static sparta_status cut_axis(sparta_graph *g, const sparta_node *n, const cut *c, const sparta_expr **out)
{
    int64_t size, start, end, first;
    if (c->step == 0) return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "a step is 0");
    if (sparta_expr_is_const(c->size, &size) && sparta_expr_is_const(c->start, &start) &&
        sparta_expr_is_const(c->end, &end)) {
        *out = sparta_expr_const(g->arena, sparta_slice_count(size, start, end, c->step, &first));
        SPARTA_NEED(g->cx, *out);
        return SPARTA_OK;
    }
    sparta_ctx_clear(g->cx);
    if (c->step > -FAR && c->step < FAR) {
        *out = measure(g, c);
        if (*out) return SPARTA_OK;
        if (sparta_message(g->cx)[0]) return sparta_ctx_status(g->cx);
    }
    return sparta_ops_fail(g, n, SPARTA_E_UNSUPPORTED,
                           "[%s : %s : %lld] of a dim of %s has no known length; fix the symbols with --dim",
                           sparta_ops_say(g, c->start), sparta_ops_say(g, c->end), (long long)c->step,
                           sparta_ops_say(g, c->size));
}

sparta_status sparta_shape_Slice(sparta_graph *g, sparta_node *n)
{
    const sparta_dims *x = &n->in[0]->dims;
    sparta_dims dims = *x;
    sparta_list starts, ends;
    int64_t axes[SPARTA_RANK], steps[SPARTA_RANK];
    int n_axes, n_steps;
    bool taken[SPARTA_RANK] = {false};
    SPARTA_TRY(sparta_ops_list(g, n, 1, "the starts", &starts));
    SPARTA_TRY(sparta_ops_list(g, n, 2, "the ends", &ends));
    SPARTA_TRY(sparta_ops_constants(g, n, 3, "axes", SPARTA_RANK, axes, &n_axes));
    SPARTA_TRY(sparta_ops_constants(g, n, 4, "the steps", SPARTA_RANK, steps, &n_steps));
    if (starts.n > x->rank || ends.n != starts.n || (n_axes >= 0 && n_axes != starts.n) ||
        (n_steps >= 0 && n_steps != starts.n))
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE,
                               "%d starts, %d ends, %d axes and %d steps (-1: absent) for rank %d", starts.n,
                               ends.n, n_axes, n_steps, x->rank);
    for (int i = 0; i < starts.n; i++) {
        int axis;
        SPARTA_TRY(sparta_ops_axis(g, n, n_axes >= 0 ? axes[i] : i, x->rank, &axis));
        if (taken[axis]) return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "axis %d is named twice", axis);
        taken[axis] = true;
        cut c = {x->dim[axis], starts.x[i], ends.x[i], n_steps >= 0 ? steps[i] : 1};
        SPARTA_TRY(cut_axis(g, n, &c, &dims.dim[axis]));
    }
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sparta_ops_move(g, n, 1);
}
