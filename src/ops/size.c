/* Size: a scalar i64; its content is the product of the dims. */
#include "ops/ints.h"

sparta_status sparta_shape_Size(sparta_graph *g, sparta_node *n)
{
    const sparta_expr **ints = sparta_arena_alloc(g->arena, sizeof *ints);
    SPARTA_NEED(g->cx, ints);
    *ints = sparta_dims_elements(g->arena, &n->in[0]->dims);
    SPARTA_NEED(g->cx, *ints);
    sparta_ops_set(n, 0, SPARTA_I64, &(sparta_dims){.rank = 0});
    sparta_ops_set_ints(n, 0, ints);
    return SPARTA_OK;
}
