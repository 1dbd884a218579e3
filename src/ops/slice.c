/* Slice: along each axis the elements start, start + step, ... before end. Bounds may be sizes: x[:,
 * :sequence].
 *
 * A bound that is a symbol cannot be clamped to a dim that is a number without leaving a min() in every shape
 * that follows. It is taken to lie within the dim (position tables are longer than sequences), and the
 * reference refuses the run where it does not. */
#include "ops/ints.h"
#include "builtin/view.h"

/* Exporters write "to the end" as INT32_MAX or INT64_MAX, or their negatives. */
#define FAR ((int64_t)1 << 31)

typedef struct cut {
    const sp_expr *size, *start, *end;
    int64_t step;
} cut;

/* A bound counted from the front, not yet clamped; NULL: its sign is not known (without message), or a
 * failure (with one). */
static const sp_expr *from_front(sp_graph *g, const sp_expr *bound, const sp_expr *size)
{
    if (sp_ops_natural(g, bound)) return bound;
    return sp_ops_negative(g, bound) ? sp_expr_add(g->arena, size, bound) : NULL;
}

/* min(bound, size), without the min where one side is known or assumed to be the smaller. */
static const sp_expr *clamp(sp_graph *g, const sp_expr *bound, const sp_expr *size)
{
    const sp_expr *room = sp_expr_sub(g->arena, size, bound), *excess = sp_expr_sub(g->arena, bound, size);
    if (!room || !excess) return NULL;
    if (sp_ops_natural(g, room)) return bound;
    if (sp_ops_natural(g, excess)) return size;
    if (sp_expr_is_const(size, NULL)) return bound; /* assumed: see above */
    return sp_expr_min(g->arena, bound, size);
}

/* ceil(max(to - from, 0) / step) */
static const sp_expr *count(sp_graph *g, const sp_expr *from, const sp_expr *to, int64_t step)
{
    const sp_expr *span = sp_ops_at_least_zero(g, sp_expr_sub(g->arena, to, from));
    return step == 1 ? span : sp_ops_share(g, span, step, true);
}

/* A bound as an index; "to the end" is `last`, or what is before the first. */
static const sp_expr *index_of(sp_graph *g, const cut *c, const sp_expr *bound, const sp_expr *last)
{
    int64_t number;
    const sp_expr *at;
    if (sp_expr_is_const(bound, &number) && (number <= -FAR || number >= FAR - 1))
        at = number > 0 ? last : sp_expr_const(g->arena, c->step < 0 ? -1 : 0);
    else
        at = from_front(g, bound, c->size);
    at = at ? clamp(g, at, last) : NULL;
    return c->step > 0 ? sp_ops_at_least_zero(g, at) : at; /* x[-5:] of a dim shorter than 5 begins at 0 */
}

/* Forwards: clamp both to the size. Backwards: from at most size - 1 down to above -1. NULL as from_front. */
static const sp_expr *measure(sp_graph *g, const cut *c)
{
    const sp_expr *last = c->step < 0 ? sp_ops_plus(g, c->size, -1) : c->size;
    const sp_expr *from = last ? index_of(g, c, c->start, last) : NULL;
    const sp_expr *to = from ? index_of(g, c, c->end, last) : NULL;
    return c->step > 0 ? count(g, from, to, c->step) : count(g, to, from, -c->step);
}

static sparta_status cut_axis(sp_graph *g, const sp_node *n, const cut *c, const sp_expr **out)
{
    int64_t size, start, end, first;
    if (c->step == 0) return sp_ops_fail(g, n, SPARTA_E_SHAPE, "a step is 0");
    if (sp_expr_is_const(c->size, &size) && sp_expr_is_const(c->start, &start) &&
        sp_expr_is_const(c->end, &end)) {
        *out = sp_expr_const(g->arena, sp_slice_count(size, start, end, c->step, &first));
        SP_NEED(g->cx, *out);
        return SPARTA_OK;
    }
    sp_ctx_clear(g->cx);
    if (c->step > -FAR && c->step < FAR) {
        *out = measure(g, c);
        if (*out) return SPARTA_OK;
        if (sparta_message(g->cx)[0]) return sp_ctx_status(g->cx);
    }
    return sp_ops_fail(
        g, n, SPARTA_E_UNSUPPORTED,
        "[%s : %s : %lld] of a dim of %s has no known length; fix the symbols with options.dims",
        sp_ops_say(g, c->start), sp_ops_say(g, c->end), (long long)c->step, sp_ops_say(g, c->size));
}

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_dims *x = &n->in[0]->dims;
    sp_dims dims = *x;
    sp_list starts, ends;
    int64_t axes[SPARTA_RANK], steps[SPARTA_RANK];
    int n_axes, n_steps;
    bool taken[SPARTA_RANK] = {false};
    SP_TRY(sp_ops_list(g, n, 1, "the starts", &starts));
    SP_TRY(sp_ops_list(g, n, 2, "the ends", &ends));
    SP_TRY(sp_ops_constants(g, n, 3, "axes", SPARTA_RANK, axes, &n_axes));
    SP_TRY(sp_ops_constants(g, n, 4, "the steps", SPARTA_RANK, steps, &n_steps));
    if (starts.n > x->rank || ends.n != starts.n || (n_axes >= 0 && n_axes != starts.n) ||
        (n_steps >= 0 && n_steps != starts.n))
        return sp_ops_fail(g, n, SPARTA_E_SHAPE,
                           "%d starts, %d ends, %d axes and %d steps (-1: absent) for rank %d", starts.n,
                           ends.n, n_axes, n_steps, x->rank);
    for (int i = 0; i < starts.n; i++) {
        int axis;
        SP_TRY(sp_ops_axis(g, n, n_axes >= 0 ? axes[i] : i, x->rank, &axis));
        if (taken[axis]) return sp_ops_fail(g, n, SPARTA_E_SHAPE, "axis %d is named twice", axis);
        taken[axis] = true;
        cut c = {x->dim[axis], starts.x[i], ends.x[i], n_steps >= 0 ? steps[i] : 1};
        SP_TRY(cut_axis(g, n, &c, &dims.dim[axis]));
    }
    sp_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sp_ops_move(g, n, 1);
}

/* ------------------------------------------------------------------ flow */
typedef struct cuts {                          /* what is cut of each axis */
    bool cut[SPARTA_RANK], known[SPARTA_RANK]; /* known: from where */
    bool numbers, mixed; /* the bounds can be written anew; a number of elements is cut by a symbol */
    int64_t from[SPARTA_RANK], step[SPARTA_RANK];
} cuts;

static sparta_status read_cuts(sp_graph *g, const sp_node *n, const sp_dims *x, cuts *out)
{
    cuts c = {.numbers = true};
    sp_list starts, ends;
    int64_t axes[SPARTA_RANK], steps[SPARTA_RANK], size, start, end;
    int n_axes, n_steps, axis;
    SP_TRY(sp_ops_list(g, n, 1, "the starts", &starts));
    SP_TRY(sp_ops_list(g, n, 2, "the ends", &ends));
    SP_TRY(sp_ops_constants(g, n, 3, "axes", SPARTA_RANK, axes, &n_axes));
    SP_TRY(sp_ops_constants(g, n, 4, "the steps", SPARTA_RANK, steps, &n_steps));
    for (int i = 0; i < starts.n; i++) {
        SP_TRY(sp_ops_axis(g, n, n_axes >= 0 ? axes[i] : i, x->rank, &axis));
        bool numbers = sp_expr_is_const(starts.x[i], &start) && sp_expr_is_const(ends.x[i], &end);
        bool sized = sp_expr_is_const(x->dim[axis], &size);
        c.cut[axis] = true;
        c.known[axis] = numbers && sized;
        c.step[axis] = n_steps >= 0 ? steps[i] : 1;
        c.numbers &= numbers;
        c.mixed |= sized && !numbers;
        if (numbers && sized) (void)sp_slice_count(size, start, end, c.step[axis], &c.from[axis]);
    }
    *out = c;
    return SPARTA_OK;
}

/* Axis i of the input; of the output the same, a window of it, or what may be from anywhere. */
static sparta_status cut_label(sp_axes *a, const cuts *c, int i)
{
    static const char computed[] = "its bounds are computed as the model runs; give sizes with options.dims";
    bool vague = c->cut[i] && (!c->known[i] || c->mixed), stays = c->cut[i] && (vague || !c->numbers);
    const char *why = stays ? computed : c->cut[i] && c->step[i] != 1 ? "it takes every n-th of them" : NULL;
    int l, part;
    SP_TRY(sp_axes_label(a, a->n->in[0]->dims.dim[i], vague && c->mixed ? SP_SUM : SP_EACH, why, &l));
    a->in[0].axis[i] = a->out[0].axis[i] = sp_axis_of(l);
    if (c->cut[i] && !vague) a->out[0].axis[i] = sp_axis_window(l, c->from[i], c->step[i]);
    if (!vague) return SPARTA_OK;
    SP_TRY(sp_axes_label(a, a->n->out[0]->dims.dim[i], SP_EACH, why, &part));
    a->out[0].axis[i] = sp_axis_of(part);
    return SPARTA_OK;
}

static sparta_status axes(sp_axes *a)
{
    const sp_dims *x = &a->n->in[0]->dims;
    cuts c;
    SP_TRY(read_cuts(a->g, a->n, x, &c));
    a->how = c.mixed ? SP_FLOW_PRODUCT : SP_FLOW_MOVE;
    a->no_values = c.mixed;
    a->in[0].role = c.mixed ? SP_FACTOR : SP_ARG;
    a->out[0].role = SP_ARG;
    for (int i = 0; i < x->rank; i++) SP_TRY(cut_label(a, &c, i));
    return SPARTA_OK;
}

static sparta_status shrink(const sp_shrink *s)
{
    const sp_node *n = s->n;
    int64_t start[SPARTA_RANK], end[SPARTA_RANK], size;
    int count, axis;
    int64_t axes[SPARTA_RANK];
    bool changed = false;
    for (int i = 0; i < n->in[0]->dims.rank; i++) {
        const sp_axis *x = &s->axes->out[0].axis[i];
        changed |= x->window && s->kept[x->label[0]];
    }
    if (!changed) return SPARTA_OK;
    SP_TRY(sp_ops_constants(s->g, n, 1, "the starts", SPARTA_RANK, start, &count));
    SP_TRY(sp_ops_constants(s->g, n, 2, "the ends", SPARTA_RANK, end, &count));
    int n_axes;
    SP_TRY(sp_ops_constants(s->g, n, 3, "axes", SPARTA_RANK, axes, &n_axes));
    for (int i = 0; i < count; i++) {
        SP_TRY(sp_ops_axis(s->g, n, n_axes >= 0 ? axes[i] : i, n->in[0]->dims.rank, &axis));
        const sp_axis *x = &s->axes->out[0].axis[axis];
        if (!x->window || !s->kept[x->label[0]] || !sp_expr_is_const(n->out[0]->dims.dim[axis], &size))
            continue;
        start[i] = sp_shrink_count(s, x->label[0], 0, x->from);
        end[i] = start[i] + size;
    }
    SP_TRY(sp_shrink_list(s, 1, count, start));
    return sp_shrink_list(s, 2, count, end);
}

SP_RULE(Slice, shape, SP_ALL, SP_EXACT, axes, shrink, "the elements of its window; what is outside goes",
        "bounds computed from data");
