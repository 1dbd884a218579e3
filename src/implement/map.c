/* map: sums of two values of the same shape, and activations, element by element on panels. */
#include "implement/implement.h"

static bool match(const sparta_task *t)
{
    const sparta_node *n = t->node;
    if (!sparta_implement_tokens(n->out[0]) || n->n_out != 1) return false;
    switch (n->op) {
    case SPARTA_OP_Add:
        return n->in[0] && n->in[1] && sparta_dims_equal(&n->in[0]->dims, &n->out[0]->dims) &&
               sparta_dims_equal(&n->in[1]->dims, &n->out[0]->dims) && n->in[0]->dtype == SPARTA_F32 &&
               n->in[1]->dtype == SPARTA_F32 && !n->in[0]->constant && !n->in[1]->constant;
    case SPARTA_OP_Relu:
    case SPARTA_OP_Gelu:
    case SPARTA_OP_Tanh:
    case SPARTA_OP_Sigmoid: return n->in[0] && !n->in[0]->constant;
    default: return false;
    }
}

const sparta_implement sparta_implement_map = {.name = "map", .kernel = "map", .match = match};
