/* Attention: the dims of q, (B, S, heads*D). k and v are (B, T, heads*D); the mask repeats into (B, heads, S,
 * T). */
#include "ops/ints.h"

sparta_status sparta_shape_Attention(sparta_graph *g, sparta_node *n)
{
    const sparta_dims *q = &n->in[0]->dims, *k = &n->in[1]->dims, *v = &n->in[2]->dims;
    const sparta_expr *heads = sparta_expr_const(g->arena, sparta_attr_int(&n->attrs, "heads", 1));
    SPARTA_NEED(g->cx, heads);
    for (int i = 0; i < 3; i++) {
        SPARTA_TRY(sparta_ops_rank(g, n, i, 3, 3));
        SPARTA_TRY(sparta_ops_same_type(g, n, 0, i));
        SPARTA_TRY(sparta_ops_agree(g, n, "batch", q->dim[0], n->in[i]->dims.dim[0]));
        SPARTA_TRY(sparta_ops_agree(g, n, "columns", q->dim[2], n->in[i]->dims.dim[2]));
    }
    SPARTA_TRY(sparta_ops_agree(g, n, "length of k and v", k->dim[1], v->dim[1]));
    const sparta_expr *columns = NULL; /* of one head */
    if (sparta_ops_positive(g, heads)) SPARTA_TRY(sparta_ops_divide(g, q->dim[2], heads, &columns));
    if (!columns)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "%s columns do not divide into %s heads",
                               sparta_ops_say(g, q->dim[2]), sparta_ops_say(g, heads));
    SPARTA_TRY(sparta_ops_types(g, n, 3, SPARTA_FLOATS));
    sparta_dims scores = {.rank = 4, .dim = {q->dim[0], heads, q->dim[1], k->dim[1]}};
    if (sparta_ops_has(n, 3)) SPARTA_TRY(sparta_ops_broadcasts_to(g, n, &n->in[3]->dims, &scores));
    return sparta_ops_unary(g, n, SPARTA_FLOATS);
}
