/* SpaceToDepth: (N, C, H b, W b) gives (N, C b b, H, W), b being attribute blocksize. */
#include "ops/flow.h"
#include "ops/blocks.h"

sparta_status sp_shape_SpaceToDepth(sp_graph *g, sp_node *n)
{
    const sp_expr *b = NULL, *squared;
    SP_TRY(sp_ops_blocksize(g, n, &b));
    sp_dims dims = n->in[0]->dims;
    for (int i = 2; i < 4; i++) SP_TRY(sp_ops_blocks_of(g, n, i, dims.dim[i], b, &dims.dim[i]));
    squared = sp_expr_mul(g->arena, b, b);
    dims.dim[1] = squared ? sp_expr_mul(g->arena, dims.dim[1], squared) : NULL;
    SP_NEED(g->cx, dims.dim[1]);
    sp_ops_set(n, 0, n->in[0]->dtype, &dims);
    return SPARTA_OK;
}

/* x: b c (h p) (w q), y: b (p q c) h w. */
static sparta_status axes(sp_axes *a)
{
    const sp_value *x = a->n->in[0], *y = a->n->out[0];
    const char *why = "they are the places in a block";
    const sp_expr *b = sp_expr_const(a->g->arena, sp_attr_int(&a->n->attrs, "blocksize", 1));
    int l[6];
    SP_NEED(a->g->cx, b);
    const sp_expr *dim[6] = {x->dims.dim[0], x->dims.dim[1], b, b, y->dims.dim[2], y->dims.dim[3]};
    for (int i = 0; i < 6; i++)
        SP_TRY(sp_axes_label(a, dim[i], SP_EACH, i == 2 || i == 3 ? why : NULL, &l[i]));
    a->how = SP_FLOW_MOVE;
    a->in[0].role = a->out[0].role = SP_ARG;
    a->in[0].axis[0] = a->out[0].axis[0] = sp_axis_of(l[0]);
    a->in[0].axis[1] = sp_axis_of(l[1]);
    a->out[0].axis[1] = (sp_axis){.n = 3, .label = {l[2], l[3], l[1]}};
    for (int k = 2; k < 4; k++) {
        a->in[0].axis[k] = sp_axis_pair(l[2 + k], l[k]);
        a->out[0].axis[k] = sp_axis_of(l[2 + k]);
    }
    return SPARTA_OK;
}

const sp_flow sp_flow_SpaceToDepth = {
    SP_EXACT, "the same elements; channels go when they do in all places of a block", "any", "", axes, NULL};
