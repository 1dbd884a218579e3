/* Weights that DequantizeLinear widens become f32 constants, which Linear and the implements know. Infer leaves them narrow, so that a
 * model that is only made smaller keeps its types. */
#include "compile/passes.h"
#include "ops/ops.h"

static bool of_constants(const sp_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !n->in[i]->constant) return false;
    return true;
}

sparta_status sp_pass_dequantize(sp_graph *g)
{
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        sp_node *n = g->node[i];
        if (!sp_ops_keeps(n) || !of_constants(n)) continue;
        SP_TRY(sp_ops_fold(g, n));
        n->out[0]->producer = NULL;
        n->out[0]->origin = n->in[0]->origin;
        sp_graph_remove_node(g, i);
    }
    return SPARTA_OK;
}
