/* map: sums of two values of the same shape, and activations, element by element on panels. */
#include "implement/implement.h"

static bool match(const sp_task *t)
{
    const sp_node *n = t->node;
    if (!sp_implement_tokens(n->out[0]) || n->n_out != 1) return false;
    switch (n->op) {
    case SP_OP_Add:
        return n->in[0] && n->in[1] && sp_dims_equal(&n->in[0]->dims, &n->out[0]->dims) &&
               sp_dims_equal(&n->in[1]->dims, &n->out[0]->dims) && n->in[0]->dtype == SPARTA_F32 &&
               n->in[1]->dtype == SPARTA_F32 && !n->in[0]->constant && !n->in[1]->constant;
    case SP_OP_Relu:
    case SP_OP_Gelu:
    case SP_OP_Tanh:
    case SP_OP_Sigmoid: return n->in[0] && !n->in[0]->constant;
    default: return false;
    }
}

const sp_implement sp_implement_map = {.name = "map", .kernel = "map", .match = match};
