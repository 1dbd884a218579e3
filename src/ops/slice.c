/* Slice: along each axis the elements start, start + step, ... before end. Bounds may be sizes: x[:,
 * :sequence].
 *
 * A bound that is a symbol cannot be clamped to a dim that is a number without leaving a min() in every shape
 * that follows. It is taken to lie within the dim (position tables are longer than sequences), and the
 * reference refuses the run where it does not. */
#include "ops/flow.h"
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

/* ------------------------------------------------------------------ flow */
typedef struct cuts {                          /* what is cut of each axis */
    bool cut[SPARTA_RANK], known[SPARTA_RANK]; /* known: from where */
    bool numbers, mixed; /* the bounds can be written anew; a number of elements is cut by a symbol */
    int64_t from[SPARTA_RANK], step[SPARTA_RANK];
} cuts;

static sparta_status read_cuts(sparta_graph *g, const sparta_node *n, const sparta_dims *x, cuts *out)
{
    cuts c = {.numbers = true};
    sparta_list starts, ends;
    int64_t axes[SPARTA_RANK], steps[SPARTA_RANK], size, start, end;
    int n_axes, n_steps, axis;
    SPARTA_TRY(sparta_ops_list(g, n, 1, "the starts", &starts));
    SPARTA_TRY(sparta_ops_list(g, n, 2, "the ends", &ends));
    SPARTA_TRY(sparta_ops_constants(g, n, 3, "axes", SPARTA_RANK, axes, &n_axes));
    SPARTA_TRY(sparta_ops_constants(g, n, 4, "the steps", SPARTA_RANK, steps, &n_steps));
    for (int i = 0; i < starts.n; i++) {
        SPARTA_TRY(sparta_ops_axis(g, n, n_axes >= 0 ? axes[i] : i, x->rank, &axis));
        bool numbers = sparta_expr_is_const(starts.x[i], &start) && sparta_expr_is_const(ends.x[i], &end);
        bool sized = sparta_expr_is_const(x->dim[axis], &size);
        c.cut[axis] = true;
        c.known[axis] = numbers && sized;
        c.step[axis] = n_steps >= 0 ? steps[i] : 1;
        c.numbers &= numbers;
        c.mixed |= sized && !numbers;
        if (numbers && sized) (void)sparta_slice_count(size, start, end, c.step[axis], &c.from[axis]);
    }
    *out = c;
    return SPARTA_OK;
}

/* Axis i of the input; of the output the same, a window of it, or what may be from anywhere. */
static sparta_status cut_label(sparta_axes *a, const cuts *c, int i)
{
    static const char computed[] = "its bounds are computed as the model runs; give sizes with --dim";
    bool vague = c->cut[i] && (!c->known[i] || c->mixed), stays = c->cut[i] && (vague || !c->numbers);
    const char *why = stays ? computed : c->cut[i] && c->step[i] != 1 ? "it takes every n-th of them" : NULL;
    int l, part;
    SPARTA_TRY(sparta_axes_label(a, a->n->in[0]->dims.dim[i], vague && c->mixed ? SPARTA_SUM : SPARTA_EACH,
                                 why, &l));
    a->in[0].axis[i] = a->out[0].axis[i] = sparta_axis_of(l);
    if (c->cut[i] && !vague) a->out[0].axis[i] = sparta_axis_window(l, c->from[i], c->step[i]);
    if (!vague) return SPARTA_OK;
    SPARTA_TRY(sparta_axes_label(a, a->n->out[0]->dims.dim[i], SPARTA_EACH, why, &part));
    a->out[0].axis[i] = sparta_axis_of(part);
    return SPARTA_OK;
}

static sparta_status axes(sparta_axes *a)
{
    const sparta_dims *x = &a->n->in[0]->dims;
    cuts c;
    SPARTA_TRY(read_cuts(a->g, a->n, x, &c));
    a->how = c.mixed ? SPARTA_FLOW_PRODUCT : SPARTA_FLOW_MOVE;
    a->no_values = c.mixed;
    a->in[0].role = c.mixed ? SPARTA_FACTOR : SPARTA_ARG;
    a->out[0].role = SPARTA_ARG;
    for (int i = 0; i < x->rank; i++) SPARTA_TRY(cut_label(a, &c, i));
    return SPARTA_OK;
}

static sparta_status shrink(const sparta_shrink *s)
{
    const sparta_node *n = s->n;
    int64_t start[SPARTA_RANK], end[SPARTA_RANK], size;
    int count, axis;
    int64_t axes[SPARTA_RANK];
    bool changed = false;
    for (int i = 0; i < n->in[0]->dims.rank; i++) {
        const sparta_axis *x = &s->axes->out[0].axis[i];
        changed |= x->window && s->kept[x->label[0]];
    }
    if (!changed) return SPARTA_OK;
    SPARTA_TRY(sparta_ops_constants(s->g, n, 1, "the starts", SPARTA_RANK, start, &count));
    SPARTA_TRY(sparta_ops_constants(s->g, n, 2, "the ends", SPARTA_RANK, end, &count));
    int n_axes;
    SPARTA_TRY(sparta_ops_constants(s->g, n, 3, "axes", SPARTA_RANK, axes, &n_axes));
    for (int i = 0; i < count; i++) {
        SPARTA_TRY(sparta_ops_axis(s->g, n, n_axes >= 0 ? axes[i] : i, n->in[0]->dims.rank, &axis));
        const sparta_axis *x = &s->axes->out[0].axis[axis];
        if (!x->window || !s->kept[x->label[0]] || !sparta_expr_is_const(n->out[0]->dims.dim[axis], &size))
            continue;
        start[i] = sparta_shrink_count(s, x->label[0], 0, x->from);
        end[i] = start[i] + size;
    }
    SPARTA_TRY(sparta_shrink_list(s, 1, count, start));
    return sparta_shrink_list(s, 2, count, end);
}

const sparta_flow sparta_flow_Slice = {SPARTA_EXACT, "the elements of its window; what is outside goes",
                                       "any",        "bounds computed from data",
                                       axes,         shrink};
