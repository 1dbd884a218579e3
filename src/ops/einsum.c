/* Einsum: the dims that the letters of the result name (attribute equation, builtin/einsum.h). A letter has one size in all operands;
 * dims of "..." broadcast. */
#include "ops/flow.h"
#include "builtin/einsum.h"
#include "ops/rule.h"

/* One dim of one operand: it agrees with what its loop was before, or is the first. */
static sparta_status meet(sp_graph *g, const sp_node *n, const sp_expr *dim, bool wide, const sp_expr **loop)
{
    if (!*loop || (wide && sp_expr_is(*loop, 1))) {
        *loop = dim;
        return SPARTA_OK;
    }
    if (wide && sp_expr_is(dim, 1)) return SPARTA_OK;
    return sp_ops_agree(g, n, "dims of one letter, or of \"...\"", *loop, dim);
}

static sparta_status find_dims(sp_graph *g, const sp_node *n, const sp_einsum *e, sp_dims *out)
{
    const sp_expr *loop[SP_EINSUM_LOOPS] = {NULL};
    *out = (sp_dims){.rank = 0};
    for (int i = 0; i < n->n_in; i++)
        for (int d = 0; d < n->in[i]->dims.rank; d++)
            SP_TRY(meet(g, n, n->in[i]->dims.dim[d], e->wide[e->loop[i][d]], &loop[e->loop[i][d]]));
    for (int l = 0; l < e->kept; l++) SP_TRY(sp_ops_append(g, n, out, loop[l]));
    return SPARTA_OK;
}

static sparta_status shape(sp_graph *g, sp_node *n)
{
    sp_einsum e;
    sp_dims dims;
    int *rank = sp_arena_array(g->arena, (size_t)n->n_in, sizeof *rank);
    SP_NEED(g->cx, rank);
    for (int i = 0; i < n->n_in; i++) {
        SP_TRY(sp_ops_types(g, n, i, SP_NUMBERS));
        SP_TRY(sp_ops_same_type(g, n, 0, i));
        rank[i] = n->in[i]->dims.rank;
    }
    if (sp_einsum_parse(g->cx, sp_attr_string(&n->attrs, "equation", ""), n->n_in, rank, &e) != SPARTA_OK)
        return sp_fail_in(g->cx, "node '%.200s'", n->name);
    sparta_status status = find_dims(g, n, &e, &dims);
    sp_free(g->cx, e.loop);
    SP_TRY(status);
    return sp_ops_done(n, n->in[0]->dtype, &dims);
}

/* Every loop is a label; those that the result lacks are summed. */
static sparta_status describe(sp_axes *a, const sp_einsum *e)
{
    const sp_node *n = a->n;
    int label[SP_LABELS];
    for (int l = 0; l < e->loops; l++) {
        const sp_expr *dim = NULL;
        for (int i = 0; i < n->n_in; i++)
            for (int d = 0; d < n->in[i]->dims.rank; d++)
                if (e->loop[i][d] == l && (!dim || sp_expr_is(dim, 1))) dim = n->in[i]->dims.dim[d];
        SP_TRY(sp_axes_label(a, dim, l < e->kept ? SP_EACH : SP_SUM, NULL, &label[l]));
    }
    a->how = SP_FLOW_PRODUCT;
    a->bias_axis = e->kept - 1;
    for (int i = 0; i < n->n_in; i++) {
        a->in[i].role = SP_FACTOR;
        for (int d = 0; d < n->in[i]->dims.rank; d++) {
            int l = label[e->loop[i][d]];
            bool repeats = sp_expr_is(n->in[i]->dims.dim[d], 1) && a->label[l].size != 1;
            a->in[i].axis[d] = repeats ? (sp_axis){.n = 0} : sp_axis_of(l);
        }
    }
    a->out[0].role = SP_ARG;
    for (int l = 0; l < e->kept; l++) a->out[0].axis[l] = sp_axis_of(label[l]);
    return SPARTA_OK;
}

static sparta_status axes(sp_axes *a)
{
    sp_einsum e;
    int *rank = sp_arena_array(a->arena, (size_t)a->n->n_in, sizeof *rank);
    SP_NEED(a->g->cx, rank);
    for (int i = 0; i < a->n->n_in; i++) rank[i] = a->n->in[i]->dims.rank;
    SP_TRY(sp_einsum_parse(a->g->cx, sp_attr_string(&a->n->attrs, "equation", ""), a->n->n_in, rank, &e));
    sparta_status status = e.loops <= SP_LABELS ? describe(a, &e) : SPARTA_OK; /* more: opaque */
    sp_free(a->g->cx, e.loop);
    return status;
}

SP_RULE(Einsum, shape, SP_NUMBERS, SP_EXACT, axes, NULL,
        "zero where every product of its sum is; zero and constant summands go", "");
