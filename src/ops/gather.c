/* Gather: the dims of the indices in place of the dim at attribute axis (0). */
#include "ops/ints.h"

sparta_status sparta_shape_Gather(sparta_graph *g, sparta_node *n)
{
    const sparta_value *x = n->in[0], *indices = n->in[1];
    sparta_dims dims = {.rank = 0};
    int axis;
    SPARTA_TRY(sparta_ops_types(g, n, 1, SPARTA_INDICES));
    SPARTA_TRY(sparta_ops_axis(g, n, sparta_attr_int(&n->attrs, "axis", 0), x->dims.rank, &axis));
    for (int i = 0; i < axis; i++) SPARTA_TRY(sparta_ops_append(g, n, &dims, x->dims.dim[i]));
    for (int i = 0; i < indices->dims.rank; i++)
        SPARTA_TRY(sparta_ops_append(g, n, &dims, indices->dims.dim[i]));
    for (int i = axis + 1; i < x->dims.rank; i++) SPARTA_TRY(sparta_ops_append(g, n, &dims, x->dims.dim[i]));
    sparta_ops_set(n, 0, x->dtype, &dims);
    return sparta_ops_move(g, n, 1);
}
