/* embed: sums of rows of constant tables, written straight into panels. */
#include "implement/implement.h"

static bool match(const sp_task *t)
{
    const sp_node *n = t->node;
    if (n->op != SP_OP_Embed || n->n_in > SP_OPERANDS || n->n_in % 2 || !sp_implement_tokens(n->out[0]))
        return false;
    for (int i = 0; i < n->n_in; i += 2) {
        if (!n->in[i] || !n->in[i]->constant || n->in[i]->dtype != SPARTA_F32 || n->in[i]->dims.rank != 2)
            return false;
        if (!n->in[i + 1] || (n->in[i + 1]->dtype != SPARTA_I64 && n->in[i + 1]->dtype != SPARTA_I32))
            return false;
    }
    return true;
}

const sp_implement sp_implement_embed = {.name = "embed", .kernel = "embed", .match = match};
