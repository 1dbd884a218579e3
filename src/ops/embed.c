/* Embed: the dims of all ids broadcast against each other, then H, the width of every table. With attribute column the last dim of
 * the ids is not counted: one element of it is used. */
#include "ops/flow.h"

/* The dims of the ids that are used. */
static sparta_status used_dims(sp_graph *g, sp_node *n, int i, sp_dims *out)
{
    const sp_attr *column = sp_attr_find(&n->attrs, "column");
    int64_t size;
    *out = n->in[i]->dims;
    if (!column) return SPARTA_OK;
    SP_TRY(sp_ops_rank(g, n, i, 1, SPARTA_RANK));
    out->rank--;
    if (column->i < 0 || !sp_expr_is_const(out->dim[out->rank], &size) || column->i >= size)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "column is %lld; input %d is %s", (long long)column->i, i,
                           sp_ops_say_dims(g, &n->in[i]->dims));
    return SPARTA_OK;
}

static sparta_status shape(sp_graph *g, sp_node *n)
{
    sp_dims dims = {.rank = 0}, ids;
    if (n->n_in % 2)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%d inputs; it takes pairs of a table and ids", n->n_in);
    for (int i = 0; i < n->n_in; i += 2) {
        if (!n->in[i] || !n->in[i + 1])
            return sp_ops_fail(g, n, SPARTA_E_FORMAT, "input %d or %d is absent", i, i + 1);
        SP_TRY(sp_ops_types(g, n, i, SP_FLOATS));
        SP_TRY(sp_ops_same_type(g, n, 0, i));
        SP_TRY(sp_ops_types(g, n, i + 1, SP_INDICES));
        SP_TRY(sp_ops_rank(g, n, i, 2, 2));
        SP_TRY(sp_ops_agree(g, n, "width of the tables", n->in[0]->dims.dim[1], n->in[i]->dims.dim[1]));
        SP_TRY(used_dims(g, n, i + 1, &ids));
        SP_TRY(sp_ops_broadcast(g, n, &dims, &ids, &dims));
    }
    SP_TRY(sp_ops_append(g, n, &dims, n->in[0]->dims.dim[1]));
    return sp_ops_done(n, n->in[0]->dtype, &dims);
}

SP_RULE(Embed, shape, SP_FLOATS, SP_OPAQUE, NULL, NULL, "opaque", "");
