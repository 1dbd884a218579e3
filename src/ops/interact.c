/* Interact: (B, P), or (B, D + P) when attribute keep names a vector; all vectors are (B, D), the dots (P, 2). */
#include "ops/flow.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const int vectors = n->n_in - 1;
    const int64_t keep = sp_attr_int(&n->attrs, "keep", -1);
    if (keep < -1 || keep >= vectors)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "keep is %lld; there are %d vectors", (long long)keep,
                           vectors);
    for (int i = 0; i <= vectors; i++) {
        if (!n->in[i]) return sp_ops_fail(g, n, SPARTA_E_FORMAT, "input %d is absent", i);
        SP_TRY(sp_ops_types(g, n, i, i < vectors ? SP_FLOATS : SP_INDICES));
        SP_TRY(sp_ops_rank(g, n, i, 2, 2));
        if (i == vectors) break;
        SP_TRY(sp_ops_same_type(g, n, 0, i));
        SP_TRY(sp_ops_agree(g, n, "number of items", n->in[0]->dims.dim[0], n->in[i]->dims.dim[0]));
        SP_TRY(sp_ops_agree(g, n, "length of the vectors", n->in[0]->dims.dim[1], n->in[i]->dims.dim[1]));
    }
    if (!sp_expr_is(n->in[vectors]->dims.dim[1], 2))
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "the list of dots is %s; it must be (P, 2)",
                           sp_ops_say_dims(g, &n->in[vectors]->dims));
    sp_dims dims = {.rank = 2, .dim = {n->in[0]->dims.dim[0], n->in[vectors]->dims.dim[0]}};
    if (keep >= 0) {
        dims.dim[1] = sp_expr_add(g->arena, n->in[0]->dims.dim[1], dims.dim[1]);
        SP_NEED(g->cx, dims.dim[1]);
    }
    return sp_ops_done(n, n->in[0]->dtype, &dims);
}

SP_RULE(Interact, shape, SP_FLOATS, SP_OPAQUE, NULL, NULL, "opaque", "");
