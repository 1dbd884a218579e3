/* map: sums of two values of the same shape, and activations, element by element on panels. */
#include "implement/implement.h"

static bool match(const sp_task *t)
{
    const sp_node *n = t->node;
    for (int i = 0; i < n->n_in; i++)
        if (!n->in[i] || n->in[i]->constant || !sp_dims_equal(&n->in[i]->dims, &n->out[0]->dims))
            return false;
    return true;
}

const sp_implement sp_implement_map = {.name = "map", .kernel = "map", .match = match};
