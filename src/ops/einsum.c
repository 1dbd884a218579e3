/* Einsum: the dims that the letters of the result name (attribute equation, builtin/einsum.h). A letter has one size in all operands;
 * dims of "..." broadcast. */
#include "ops/flow.h"
#include "builtin/einsum.h"
#include "ops/rule.h"

/* One dim of one operand: it agrees with what its loop was before, or is the first. */
static sparta_status meet(sparta_graph *g, const sparta_node *n, const sparta_expr *dim, bool wide,
                          const sparta_expr **loop)
{
    if (!*loop || (wide && sparta_expr_is(*loop, 1))) {
        *loop = dim;
        return SPARTA_OK;
    }
    if (wide && sparta_expr_is(dim, 1)) return SPARTA_OK;
    return sparta_ops_agree(g, n, "dims of one letter, or of \"...\"", *loop, dim);
}

static sparta_status find_dims(sparta_graph *g, const sparta_node *n, const sparta_einsum *e,
                               sparta_dims *out)
{
    const sparta_expr *loop[SPARTA_EINSUM_LOOPS] = {NULL};
    *out = (sparta_dims){.rank = 0};
    for (int i = 0; i < n->n_in; i++)
        for (int d = 0; d < n->in[i]->dims.rank; d++)
            SPARTA_TRY(meet(g, n, n->in[i]->dims.dim[d], e->wide[e->loop[i][d]], &loop[e->loop[i][d]]));
    for (int l = 0; l < e->kept; l++) SPARTA_TRY(sparta_ops_append(g, n, out, loop[l]));
    return SPARTA_OK;
}

sparta_status sparta_shape_Einsum(sparta_graph *g, sparta_node *n)
{
    sparta_einsum e;
    sparta_dims dims;
    int *rank = sparta_arena_array(g->arena, (size_t)n->n_in, sizeof *rank);
    SPARTA_NEED(g->cx, rank);
    for (int i = 0; i < n->n_in; i++) {
        SPARTA_TRY(sparta_ops_types(g, n, i, SPARTA_NUMBERS));
        SPARTA_TRY(sparta_ops_same_type(g, n, 0, i));
        rank[i] = n->in[i]->dims.rank;
    }
    if (sparta_einsum_parse(g->cx, sparta_attr_string(&n->attrs, "equation", ""), n->n_in, rank, &e) !=
        SPARTA_OK)
        return sparta_fail_in(g->cx, "node '%.200s'", n->name);
    sparta_status status = find_dims(g, n, &e, &dims);
    sparta_free(g->cx, e.loop);
    SPARTA_TRY(status);
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return SPARTA_OK;
}

/* Every loop is a label; those that the result lacks are summed. */
static sparta_status describe(sparta_axes *a, const sparta_einsum *e)
{
    const sparta_node *n = a->n;
    int label[SPARTA_LABELS];
    for (int l = 0; l < e->loops; l++) {
        const sparta_expr *dim = NULL;
        for (int i = 0; i < n->n_in; i++)
            for (int d = 0; d < n->in[i]->dims.rank; d++)
                if (e->loop[i][d] == l && (!dim || sparta_expr_is(dim, 1))) dim = n->in[i]->dims.dim[d];
        SPARTA_TRY(sparta_axes_label(a, dim, l < e->kept ? SPARTA_EACH : SPARTA_SUM, NULL, &label[l]));
    }
    a->how = SPARTA_FLOW_PRODUCT;
    a->bias_axis = e->kept - 1;
    for (int i = 0; i < n->n_in; i++) {
        a->in[i].role = SPARTA_FACTOR;
        for (int d = 0; d < n->in[i]->dims.rank; d++) {
            int l = label[e->loop[i][d]];
            bool repeats = sparta_expr_is(n->in[i]->dims.dim[d], 1) && a->label[l].size != 1;
            a->in[i].axis[d] = repeats ? (sparta_axis){.n = 0} : sparta_axis_of(l);
        }
    }
    a->out[0].role = SPARTA_ARG;
    for (int l = 0; l < e->kept; l++) a->out[0].axis[l] = sparta_axis_of(label[l]);
    return SPARTA_OK;
}

static sparta_status axes(sparta_axes *a)
{
    sparta_einsum e;
    int *rank = sparta_arena_array(a->arena, (size_t)a->n->n_in, sizeof *rank);
    SPARTA_NEED(a->g->cx, rank);
    for (int i = 0; i < a->n->n_in; i++) rank[i] = a->n->in[i]->dims.rank;
    SPARTA_TRY(sparta_einsum_parse(a->g->cx, sparta_attr_string(&a->n->attrs, "equation", ""), a->n->n_in,
                                   rank, &e));
    sparta_status status = e.loops <= SPARTA_LABELS ? describe(a, &e) : SPARTA_OK; /* more: opaque */
    sparta_free(a->g->cx, e.loop);
    return status;
}

const sparta_flow sparta_flow_Einsum = {
    SPARTA_EXACT, "zero where every product of its sum is; zero and constant summands go",
    "numbers",    "",
    axes,         NULL};
