/* interact: dot products of pairs of vectors, item by item, on panels. */
#include "implement/implement.h"

static bool match(const sparta_task *t)
{
    const sparta_node *n = t->node;
    const int vectors = n->n_in - 1;
    int where[SPARTA_OPERANDS * SPARTA_OPERANDS];
    if (n->op != SPARTA_OP_Interact || vectors < 1 || vectors >= SPARTA_OPERANDS ||
        !sparta_implement_tokens(n->out[0]) || !n->in[vectors] || !n->in[vectors]->constant)
        return false;
    for (int i = 0; i < vectors; i++)
        if (!sparta_implement_tokens(n->in[i]) || n->in[i]->constant) return false;
    return sparta_panel_dots(n->in[vectors]->constant, vectors, 0, where);
}

const sparta_implement sparta_implement_interact = {.name = "interact", .kernel = "interact", .match = match};
