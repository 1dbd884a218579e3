/* Neg: type and dims of the input; contents of sizes are followed. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sp_shape_Neg(sp_graph *g, sp_node *n)
{
    SP_TRY(sp_ops_unary(g, n, SP_FLOATS | SP_SIGNED));
    const sp_value *x = n->in[0];
    if (!x->ints || (x->dtype != SPARTA_I64 && x->dtype != SPARTA_I32)) return SPARTA_OK;
    const sp_expr **ints = sp_arena_array(g->arena, (size_t)x->n_ints, sizeof *ints),
                  *zero = sp_expr_const(g->arena, 0);
    SP_NEED(g->cx, ints && zero);
    for (int i = 0; i < x->n_ints; i++) {
        SP_TRY(sp_ints_sub(g, zero, x->ints[i], &ints[i]));
        if (!ints[i]) return SPARTA_OK;
    }
    sp_ops_set_ints(n, 0, ints);
    return SPARTA_OK;
}

const sp_flow sp_flow_Neg = {SP_EXACT, "element by element", "floats and signed integers",
                             "",       sp_flow_each,         NULL};
