/* Flatten: two dims, the products of those before attribute axis (1) and of the others. axis may equal the
 * rank. */
#include "ops/ints.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_dims *x = &n->in[0]->dims;
    int64_t axis = sp_attr_int(&n->attrs, "axis", 1);
    if (axis < -x->rank || axis > x->rank)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "axis %lld of a tensor of rank %d", (long long)axis,
                           x->rank);
    if (axis < 0) axis += x->rank;
    sp_dims part[2] = {{.rank = 0}, {.rank = 0}}, dims = {.rank = 0};
    for (int i = 0; i < x->rank; i++) SP_TRY(sp_ops_append(g, n, &part[i >= axis], x->dim[i]));
    for (int i = 0; i < 2; i++) SP_TRY(sp_ops_append(g, n, &dims, sp_dims_elements(g->arena, &part[i])));
    sp_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sp_ops_move(g, n, 1);
}

SP_RULE(Flatten, shape, SP_ALL, SP_EXACT, sp_flow_reshape, NULL,
        "the same elements; an axis is the product of those it joins", "");
