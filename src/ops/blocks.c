/* DepthToSpace: (N, C b b, H, W) gives (N, C, H b, W b), b being attribute blocksize; SpaceToDepth is the reverse. */
#include "ops/ints.h"
#include <string.h>

/* x has rank 4 and blocksize is at least 1: as an expression. */
static sparta_status blocksize(sp_graph *g, const sp_node *n, const sp_expr **out)
{
    const int64_t size = sp_attr_int(&n->attrs, "blocksize", 0);
    SP_TRY(sp_ops_rank(g, n, 0, 4, 4));
    if (size < 1 || size > 1 << 20)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "blocksize is %lld; it must be from 1 to %d",
                           (long long)size, 1 << 20);
    *out = sp_expr_const(g->arena, size);
    SP_NEED(g->cx, *out);
    return SPARTA_OK;
}

/* x / y, which must divide. */
static sparta_status blocks_of(sp_graph *g, const sp_node *n, int dim, const sp_expr *x, const sp_expr *y,
                               const sp_expr **out)
{
    SP_NEED(g->cx, y);
    SP_TRY(sp_ops_divide(g, x, y, out));
    if (*out) return SPARTA_OK;
    return sp_ops_fail(g, n, SPARTA_E_SHAPE, "dim %d is %s, which %s does not divide", dim, sp_ops_say(g, x),
                       sp_ops_say(g, y));
}

static sparta_status wide_shape(sp_graph *g, sp_node *n)
{
    const char *mode = sp_attr_string(&n->attrs, "mode", "DCR");
    const sp_expr *b = NULL;
    if (strcmp(mode, "DCR") && strcmp(mode, "CRD"))
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "mode is \"%.40s\"; it must be DCR or CRD", mode);
    SP_TRY(blocksize(g, n, &b));
    sp_dims dims = n->in[0]->dims;
    SP_TRY(blocks_of(g, n, 1, dims.dim[1], sp_expr_mul(g->arena, b, b), &dims.dim[1]));
    for (int i = 2; i < 4; i++) {
        dims.dim[i] = sp_expr_mul(g->arena, dims.dim[i], b);
        SP_NEED(g->cx, dims.dim[i]);
    }
    return sp_ops_done(n, n->in[0]->dtype, &dims);
}

static sparta_status deep_shape(sp_graph *g, sp_node *n)
{
    const sp_expr *b = NULL;
    SP_TRY(blocksize(g, n, &b));
    sp_dims dims = n->in[0]->dims;
    for (int i = 2; i < 4; i++) SP_TRY(blocks_of(g, n, i, dims.dim[i], b, &dims.dim[i]));
    dims.dim[1] = sp_expr_mul(g->arena, dims.dim[1], sp_expr_mul(g->arena, b, b));
    SP_NEED(g->cx, dims.dim[1]);
    return sp_ops_done(n, n->in[0]->dtype, &dims);
}

/* deep: b (p q c) h w, or b (c p q) h w for CRD; wide: b c (h p) (w q). */
static sparta_status axes_of(sp_axes *a, const sp_dims *deep, const sp_dims *wide, bool crd,
                             sp_flow_operand *to_deep, sp_flow_operand *to_wide)
{
    static const char why[] = "they are the places in a block";
    const sp_expr *b = sp_expr_const(a->g->arena, sp_attr_int(&a->n->attrs, "blocksize", 1));
    int l[6];
    SP_NEED(a->g->cx, b);
    const sp_expr *dim[6] = {deep->dim[0], wide->dim[1], b, b, deep->dim[2], deep->dim[3]};
    for (int i = 0; i < 6; i++)
        SP_TRY(sp_axes_label(a, dim[i], SP_EACH, i == 2 || i == 3 ? why : NULL, &l[i]));
    a->how = SP_FLOW_MOVE;
    to_deep->role = to_wide->role = SP_ARG;
    to_deep->axis[0] = to_wide->axis[0] = sp_axis_of(l[0]);
    to_deep->axis[1] =
        crd ? (sp_axis){.n = 3, .label = {l[1], l[2], l[3]}} : (sp_axis){.n = 3, .label = {l[2], l[3], l[1]}};
    to_wide->axis[1] = sp_axis_of(l[1]);
    for (int k = 2; k < 4; k++) {
        to_deep->axis[k] = sp_axis_of(l[2 + k]);
        to_wide->axis[k] = sp_axis_pair(l[2 + k], l[k]);
    }
    return SPARTA_OK;
}

static sparta_status wide_axes(sp_axes *a)
{
    bool crd = !strcmp(sp_attr_string(&a->n->attrs, "mode", "DCR"), "CRD");
    return axes_of(a, &a->n->in[0]->dims, &a->n->out[0]->dims, crd, &a->in[0], &a->out[0]);
}

static sparta_status deep_axes(sp_axes *a)
{
    return axes_of(a, &a->n->out[0]->dims, &a->n->in[0]->dims, false, &a->out[0], &a->in[0]);
}

SP_RULE(DepthToSpace, wide_shape, SP_ANY, SP_EXACT, wide_axes, NULL,
        "the same elements; channels go when they do in all places of a block", "");
SP_RULE(SpaceToDepth, deep_shape, SP_ANY, SP_EXACT, deep_axes, NULL,
        "the same elements; channels go when they do in all places of a block", "");
