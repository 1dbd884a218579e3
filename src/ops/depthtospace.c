/* DepthToSpace: (N, C b b, H, W) gives (N, C, H b, W b), b being attribute blocksize. */
#include "ops/flow.h"
#include "ops/blocks.h"
#include <string.h>

sparta_status sparta_shape_DepthToSpace(sparta_graph *g, sparta_node *n)
{
    const char *mode = sparta_attr_string(&n->attrs, "mode", "DCR");
    const sparta_expr *b = NULL;
    if (strcmp(mode, "DCR") && strcmp(mode, "CRD"))
        return sparta_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "mode is \"%.40s\"; it must be DCR or CRD", mode);
    SPARTA_TRY(sparta_ops_blocksize(g, n, &b));
    sparta_dims dims = n->in[0]->dims;
    SPARTA_TRY(sparta_ops_blocks_of(g, n, 1, dims.dim[1], sparta_expr_mul(g->arena, b, b), &dims.dim[1]));
    for (int i = 2; i < 4; i++) {
        dims.dim[i] = sparta_expr_mul(g->arena, dims.dim[i], b);
        SPARTA_NEED(g->cx, dims.dim[i]);
    }
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return SPARTA_OK;
}

/* DCR, x: b (p q c) h w; CRD, x: b (c p q) h w; y: b c (h p) (w q). */
static sparta_status axes(sparta_axes *a)
{
    const sparta_value *x = a->n->in[0], *y = a->n->out[0];
    const char *why = "they are the places in a block";
    const sparta_expr *b = sparta_expr_const(a->g->arena, sparta_attr_int(&a->n->attrs, "blocksize", 1));
    int l[6];
    bool crd = !strcmp(sparta_attr_string(&a->n->attrs, "mode", "DCR"), "CRD");
    SPARTA_NEED(a->g->cx, b);
    const sparta_expr *dim[6] = {x->dims.dim[0], y->dims.dim[1], b, b, x->dims.dim[2], x->dims.dim[3]};
    for (int i = 0; i < 6; i++)
        SPARTA_TRY(sparta_axes_label(a, dim[i], SPARTA_EACH, i == 2 || i == 3 ? why : NULL, &l[i]));
    a->how = SPARTA_FLOW_MOVE;
    a->in[0].role = a->out[0].role = SPARTA_ARG;
    a->in[0].axis[0] = a->out[0].axis[0] = sparta_axis_of(l[0]);
    a->in[0].axis[1] = crd ? (sparta_axis){.n = 3, .label = {l[1], l[2], l[3]}}
                           : (sparta_axis){.n = 3, .label = {l[2], l[3], l[1]}};
    a->out[0].axis[1] = sparta_axis_of(l[1]);
    for (int k = 2; k < 4; k++) {
        a->in[0].axis[k] = sparta_axis_of(l[2 + k]);
        a->out[0].axis[k] = sparta_axis_pair(l[2 + k], l[k]);
    }
    return SPARTA_OK;
}

const sparta_flow sparta_flow_DepthToSpace = {
    SPARTA_EXACT, "the same elements; channels go when they do in all places of a block", "any", "", axes,
    NULL};
