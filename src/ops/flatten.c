/* Flatten: two dims, the products of those before attribute axis (1) and of the others. axis may equal the
 * rank. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_Flatten(sparta_graph *g, sparta_node *n)
{
    const sparta_dims *x = &n->in[0]->dims;
    int64_t axis = sparta_attr_int(&n->attrs, "axis", 1);
    if (axis < -x->rank || axis > x->rank)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "axis %lld of a tensor of rank %d", (long long)axis,
                               x->rank);
    if (axis < 0) axis += x->rank;
    sparta_dims part[2] = {{.rank = 0}, {.rank = 0}}, dims = {.rank = 0};
    for (int i = 0; i < x->rank; i++) SPARTA_TRY(sparta_ops_append(g, n, &part[i >= axis], x->dim[i]));
    for (int i = 0; i < 2; i++)
        SPARTA_TRY(sparta_ops_append(g, n, &dims, sparta_dims_elements(g->arena, &part[i])));
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sparta_ops_move(g, n, 1);
}

static sparta_status axes(sparta_axes *a)
{
    return sparta_flow_reshape(a);
}

const sparta_flow sparta_flow_Flatten = {
    SPARTA_EXACT, "the same elements; an axis is the product of those it joins", "any", "", axes, NULL};
