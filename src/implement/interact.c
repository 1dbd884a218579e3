/* interact: dot products of pairs of vectors, item by item, on panels. */
#include "implement/implement.h"

static bool match(const sp_task *t)
{
    const sp_node *n = t->node;
    const int vectors = n->n_in - 1;
    int where[SP_OPERANDS * SP_OPERANDS];
    if (n->op != SP_OP_Interact || vectors < 1 || vectors >= SP_OPERANDS || !sp_implement_tokens(n->out[0]) ||
        !n->in[vectors] || !n->in[vectors]->constant)
        return false;
    for (int i = 0; i < vectors; i++)
        if (!sp_implement_tokens(n->in[i]) || n->in[i]->constant) return false;
    return sp_panel_dots(n->in[vectors]->constant, vectors, 0, where);
}

const sp_implement sp_implement_interact = {.name = "interact", .kernel = "interact", .match = match};
