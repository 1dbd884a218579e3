/* Interact: (B, P), or (B, D + P) when attribute keep names a vector; all vectors are (B, D), the pairs (P, 2). */
#include "ops/flow.h"
#include "ops/rule.h"

sparta_status sparta_shape_Interact(sparta_graph *g, sparta_node *n)
{
    const int vectors = n->n_in - 1;
    const int64_t keep = sparta_attr_int(&n->attrs, "keep", -1);
    if (keep < -1 || keep >= vectors)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "keep is %lld; there are %d vectors", (long long)keep,
                               vectors);
    for (int i = 0; i <= vectors; i++) {
        if (!n->in[i]) return sparta_ops_fail(g, n, SPARTA_E_FORMAT, "input %d is absent", i);
        SPARTA_TRY(sparta_ops_types(g, n, i, i < vectors ? SPARTA_FLOATS : SPARTA_INDICES));
        SPARTA_TRY(sparta_ops_rank(g, n, i, 2, 2));
        if (i == vectors) break;
        SPARTA_TRY(sparta_ops_same_type(g, n, 0, i));
        SPARTA_TRY(sparta_ops_agree(g, n, "number of items", n->in[0]->dims.dim[0], n->in[i]->dims.dim[0]));
        SPARTA_TRY(
            sparta_ops_agree(g, n, "length of the vectors", n->in[0]->dims.dim[1], n->in[i]->dims.dim[1]));
    }
    if (!sparta_expr_is(n->in[vectors]->dims.dim[1], 2))
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "the pairs are %s; they must be (P, 2)",
                               sparta_ops_say_dims(g, &n->in[vectors]->dims));
    sparta_dims dims = {.rank = 2, .dim = {n->in[0]->dims.dim[0], n->in[vectors]->dims.dim[0]}};
    if (keep >= 0) {
        dims.dim[1] = sparta_expr_add(g->arena, n->in[0]->dims.dim[1], dims.dim[1]);
        SPARTA_NEED(g->cx, dims.dim[1]);
    }
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return SPARTA_OK;
}

const sparta_flow sparta_flow_Interact = {SPARTA_OPAQUE, "opaque", "floats", "", NULL, NULL};
