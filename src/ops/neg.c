/* Neg: type and dims of the input; contents of sizes are followed. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_Neg(sparta_graph *g, sparta_node *n)
{
    SPARTA_TRY(sparta_ops_unary(g, n, SPARTA_FLOATS | SPARTA_SIGNED));
    const sparta_value *x = n->in[0];
    if (!x->ints || (x->dtype != SPARTA_I64 && x->dtype != SPARTA_I32)) return SPARTA_OK;
    const sparta_expr **ints = sparta_arena_array(g->arena, (size_t)x->n_ints, sizeof *ints),
                      *zero = sparta_expr_const(g->arena, 0);
    SPARTA_NEED(g->cx, ints && zero);
    for (int i = 0; i < x->n_ints; i++) {
        SPARTA_TRY(sparta_ints_sub(g, zero, x->ints[i], &ints[i]));
        if (!ints[i]) return SPARTA_OK;
    }
    sparta_ops_set_ints(n, 0, ints);
    return SPARTA_OK;
}

const sparta_flow sparta_flow_Neg = {SPARTA_EXACT, "element by element", "floats and signed integers",
                                     "",           sparta_flow_each,     NULL};
