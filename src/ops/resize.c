/* Resize: the dims that the fourth input (sizes) says, or the dims of x times the third (scales), rounded down; of all axes or of
 * those in attribute axes. A symbol can be scaled by numbers that are exact, like 2 or 0.5. */
#include "ops/flow.h"
#include "builtin/resize.h"
#include "ops/ints.h"
#include <math.h>

static bool given(const sp_node *n, int i)
{
    return sp_ops_has(n, i) && !(n->in[i]->dims.rank == 1 && sp_expr_is(n->in[i]->dims.dim[0], 0));
}

/* ------------------------------------------------------------------ scales */
/* x times a number whose denominator is a small power of two. *out NULL: the number is no such. */
static sparta_status scale_symbol(sp_graph *g, const sp_expr *x, double scale, const sp_expr **out)
{
    int64_t below = 1;
    while (below < 4096 && scale * (double)below != floor(scale * (double)below)) below *= 2;
    double above = scale * (double)below;
    *out = NULL;
    if (above != floor(above) || above > 4096) return SPARTA_OK;
    x = sp_expr_mul(g->arena, x, sp_expr_const(g->arena, (int64_t)above));
    *out = sp_ops_share(g, x, below, false);
    SP_NEED(g->cx, *out);
    return SPARTA_OK;
}

static sparta_status scale_dim(sp_graph *g, const sp_node *n, float scale, const sp_expr **dim)
{
    int64_t size;
    if (!(scale > 0) || isinf(scale))
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "a scale is %g; scales are finite and greater than 0",
                           (double)scale);
    if (!sp_expr_is_const(*dim, &size)) {
        const sp_expr *x = *dim;
        SP_TRY(scale_symbol(g, x, scale, dim));
        if (*dim) return SPARTA_OK;
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "%s cannot be scaled by %g; fix it with options.dims",
                           sp_ops_say(g, x), (double)scale);
    }
    double scaled = floorf((float)size * scale); /* in float, as everybody rounds it */
    if (scaled > 9e15)
        return sp_ops_fail(g, n, SPARTA_E_LIMIT, "a dim of %lld scaled by %g is too large", (long long)size,
                           (double)scale);
    *dim = sp_expr_const(g->arena, (int64_t)scaled);
    SP_NEED(g->cx, *dim);
    return SPARTA_OK;
}

static sparta_status by_scales(sp_graph *g, const sp_node *n, const sp_resize *r, sp_dims *dims)
{
    const sparta_tensor *t = n->in[2]->constant;
    SP_TRY(sp_ops_types(g, n, 2, SP_TYPE(SPARTA_F32)));
    if (!t)
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED,
                           "the scales ('%.200s') are computed from data, so the shape of the result is "
                           "not known before running; export with static shapes",
                           n->in[2]->name);
    if (t->rank != 1 || t->dim[0] != r->n_axes)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%lld scales for %d axes",
                           (long long)sparta_tensor_elements(t), r->n_axes);
    for (int i = 0; i < r->n_axes; i++)
        SP_TRY(scale_dim(g, n, ((const float *)t->data)[i], &dims->dim[r->axis[i]]));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ sizes */
/* One scale for all axes: the sizes are the most or the least that they may become. */
static sparta_status keep_aspect(sp_graph *g, const sp_node *n, const sp_resize *r, const sp_list *sizes,
                                 sp_dims *dims)
{
    double scale = 0, size[SPARTA_RANK];
    for (int i = 0; i < r->n_axes; i++) {
        int64_t to, from;
        if (!sp_expr_is_const(sizes->x[i], &to) || !sp_expr_is_const(dims->dim[r->axis[i]], &from))
            return sp_ops_fail(
                g, n, SPARTA_E_UNSUPPORTED,
                "keep_aspect_ratio_policy needs sizes that are numbers; fix them with options.dims");
        if (from < 1 || to < 1)
            return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%lld elements cannot become %lld", (long long)from,
                               (long long)to);
        double s = (double)to / (double)from;
        size[i] = (double)from;
        if (i == 0 || (r->aspect == SP_NOT_LARGER ? s < scale : s > scale)) scale = s;
    }
    for (int i = 0; i < r->n_axes; i++) {
        double scaled = floor(scale * size[i] + 0.5);
        if (scaled > 9e15) return sp_ops_fail(g, n, SPARTA_E_LIMIT, "a dim would be %g", scaled);
        dims->dim[r->axis[i]] = sp_expr_const(g->arena, (int64_t)scaled);
        SP_NEED(g->cx, dims->dim[r->axis[i]]);
    }
    return SPARTA_OK;
}

static sparta_status by_sizes(sp_graph *g, const sp_node *n, const sp_resize *r, sp_dims *dims)
{
    sp_list sizes;
    SP_TRY(sp_ops_list(g, n, 3, "the sizes", &sizes));
    if (sizes.n != r->n_axes)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%d sizes for %d axes", sizes.n, r->n_axes);
    if (r->aspect != SP_STRETCH) return keep_aspect(g, n, r, &sizes, dims);
    for (int i = 0; i < r->n_axes; i++) dims->dim[r->axis[i]] = sizes.x[i];
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the rule */
static sparta_status check(sp_graph *g, const sp_node *n, const sp_resize *r)
{
    SP_TRY(sp_ops_types(g, n, 0, r->mode == SP_NEAREST ? SP_ANY : SP_FLOATS));
    SP_TRY(sp_ops_types(g, n, 1, SP_FLOATS));
    SP_TRY(sp_ops_rank(g, n, 1, 1, 1));
    if (r->antialias && r->mode == SP_NEAREST)
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "antialias has no meaning for mode nearest");
    if (r->coordinates == SP_CROP_AND_RESIZE &&
        (!given(n, 1) || !sp_expr_is(n->in[1]->dims.dim[0], 2 * (int64_t)r->n_axes)))
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "tf_crop_and_resize needs a region of 2 x %d numbers",
                           r->n_axes);
    if (given(n, 2) == given(n, 3))
        return sp_ops_fail(g, n, SPARTA_E_FORMAT, "it needs scales or sizes, and not both");
    return SPARTA_OK;
}

static sparta_status shape(sp_graph *g, sp_node *n)
{
    sp_dims dims = n->in[0]->dims, checked = {.rank = 0};
    sp_resize r;
    if (sp_resize_read(g->cx, &n->attrs, dims.rank, &r) != SPARTA_OK)
        return sp_fail_in(g->cx, "Resize '%.200s'", n->name);
    SP_TRY(check(g, n, &r));
    SP_TRY(given(n, 2) ? by_scales(g, n, &r, &dims) : by_sizes(g, n, &r, &dims));
    for (int i = 0; i < dims.rank; i++) SP_TRY(sp_ops_append(g, n, &checked, dims.dim[i]));
    return sp_ops_done(n, n->in[0]->dtype, &checked);
}

/* ------------------------------------------------------------------ flow */
/* Is the axis left as it is? The same size may still be another piece, or another scale that rounds to it. */
static bool untouched(const sp_node *n, const sp_resize *r, int axis)
{
    for (int i = 0; i < r->n_axes; i++) {
        if (r->axis[i] != axis) continue;
        if (r->coordinates == SP_CROP_AND_RESIZE || r->aspect != SP_STRETCH) return false;
        if (given(n, 2) && ((const float *)n->in[2]->constant->data)[i] != 1) return false;
    }
    return sp_expr_equal(n->in[0]->dims.dim[axis], n->out[0]->dims.dim[axis]);
}

/* Axes that keep their size pass; those that change are mixed, and zero stays zero. Of what is alike it makes the same, so
 * that one element is enough for a run; weights are doubles, which round for doubles alone. */
static sparta_status axes(sp_axes *a)
{
    const sp_node *n = a->n;
    const char *why = given(n, 3) && !n->in[3]->constant ? "their number is computed" : NULL;
    a->how = SP_FLOW_PRODUCT;
    a->in[0].role = SP_FACTOR;
    a->out[0].role = SP_ARG;
    sp_resize r;
    SP_TRY(sp_resize_read(a->g->cx, &n->attrs, n->in[0]->dims.rank, &r));
    a->no_values = r.mode != SP_NEAREST && n->in[0]->dtype == SPARTA_F64;
    for (int k = 0; k < n->out[0]->dims.rank; k++) {
        bool same = untouched(n, &r, k);
        int in, out;
        SP_TRY(sp_axes_label(a, n->out[0]->dims.dim[k], SP_EACH, same ? why : "it makes them", &out));
        a->in[0].axis[k] = a->out[0].axis[k] = sp_axis_of(out);
        if (same) continue;
        SP_TRY(sp_axes_label(a, n->in[0]->dims.dim[k], SP_SUM, "it mixes them", &in));
        a->in[0].axis[k] = sp_axis_of(in);
        a->label[in].run = a->label[out].run = 1;
        a->label[in].alike = true;
    }
    /* That one has a value for what is outside. */
    return r.coordinates == SP_CROP_AND_RESIZE ? sp_axes_opaque(a) : SPARTA_OK;
}

/* Sizes that are said are those of the output. */
static sparta_status shrink(const sp_shrink *s)
{
    sp_resize r;
    int64_t size[SPARTA_RANK];
    if (!given(s->n, 3)) return SPARTA_OK;
    SP_TRY(sp_resize_read(s->g->cx, &s->n->attrs, s->n->in[0]->dims.rank, &r));
    if (r.aspect != SP_STRETCH) return SPARTA_OK; /* they are limits, of axes that stay */
    for (int i = 0; i < r.n_axes; i++)
        if (!sp_expr_is_const(s->n->out[0]->dims.dim[r.axis[i]], &size[i])) return SPARTA_OK;
    return sp_shrink_list(s, 3, r.n_axes, size);
}

SP_RULE(Resize, shape, SP_ANY, SP_CONSERVATIVE, axes, shrink,
        "axes that keep their size pass; zero stays zero and a constant that constant, but for smooth modes "
        "of f64",
        "smooth modes of integers and bools");
