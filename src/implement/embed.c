/* embed: sums of rows of constant tables, written straight into panels. */
#include "implement/implement.h"

static bool match(const sp_task *t)
{
    const sp_node *n = t->node;
    if (n->n_in % 2) return false;
    for (int i = 0; i < n->n_in; i += 2)
        if (!n->in[i] || !n->in[i + 1] || n->in[i]->dims.rank != 2) return false;
    return true;
}

const sp_implement sp_implement_embed = {.name = "embed", .kernel = "embed", .match = match};
