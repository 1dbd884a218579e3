/* interact: dot products of pairs of vectors, item by item, on panels. */
#include "implement/implement.h"

static bool match(const sp_task *t)
{
    const sp_node *n = t->node;
    const int vectors = n->n_in - 1;
    int where[SP_OPERANDS * SP_OPERANDS];
    if (vectors < 1 || !n->in[vectors]) return false;
    for (int i = 0; i < vectors; i++)
        if (!n->in[i] || n->in[i]->constant) return false;
    return sp_panel_dots(n->in[vectors]->constant, vectors, 0, where);
}

const sp_implement sp_implement_interact = {.name = "interact", .kernel = "interact", .match = match};
