/* Embed: the dims of all ids broadcast against each other, then H, the width of every table. */
#include "ops/rule.h"

sparta_status sparta_shape_Embed(sparta_graph *g, sparta_node *n)
{
    sparta_dims dims = {.rank = 0};
    if (n->n_in % 2)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "%d inputs; it takes pairs of a table and ids", n->n_in);
    for (int i = 0; i < n->n_in; i += 2) {
        if (!n->in[i] || !n->in[i + 1])
            return sparta_ops_fail(g, n, SPARTA_E_FORMAT, "input %d or %d is absent", i, i + 1);
        SPARTA_TRY(sparta_ops_types(g, n, i, SPARTA_FLOATS));
        SPARTA_TRY(sparta_ops_same_type(g, n, 0, i));
        SPARTA_TRY(sparta_ops_types(g, n, i + 1, SPARTA_INDICES));
        SPARTA_TRY(sparta_ops_rank(g, n, i, 2, 2));
        SPARTA_TRY(
            sparta_ops_agree(g, n, "width of the tables", n->in[0]->dims.dim[1], n->in[i]->dims.dim[1]));
        SPARTA_TRY(sparta_ops_broadcast(g, n, &dims, &n->in[i + 1]->dims, &dims));
    }
    SPARTA_TRY(sparta_ops_append(g, n, &dims, n->in[0]->dims.dim[1]));
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return SPARTA_OK;
}
